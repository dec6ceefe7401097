// All Chinese texts, by the English ones; a file for each view.

import attack from "./attack.js";
import tweak from "./tweak.js";
import votes from "./votes.js";

export default { ...attack, ...tweak, ...votes };
