// All Chinese texts, by the English ones; a file for each view.

import attack from "./attack.js";

export default { ...attack };
