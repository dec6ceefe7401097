// All Chinese texts, by the English ones; a file for each view.

export default {};
