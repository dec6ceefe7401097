// All Chinese texts, by the English ones; a file for each view.

import attack from "./attack.js";
import toy from "./toy.js";
import tweak from "./tweak.js";
import votes from "./votes.js";

export default { ...attack, ...toy, ...tweak, ...votes };
