// All Chinese texts, by the English ones; a file for each view.

import compare from "./compare.js";
import parts from "./parts.js";
import run from "./run.js";

export default { ...compare, ...parts, ...run };
