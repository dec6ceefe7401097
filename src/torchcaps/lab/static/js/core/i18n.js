// Texts of the page in the chosen language. Code has the English text: t("{count} parts", { count: 3 }).

const KEY = "torchcaps-lab-language";
const LOADERS = { zh: () => import("../zh/index.js") };
let dictionary = {};

// "en" or "zh": what was chosen before, otherwise the first language of the browser that there is.
export function language() {
  let chosen = null;
  try {
    chosen = localStorage.getItem(KEY);
  } catch {
    // storage may be disabled
  }
  const wanted = [chosen, ...(navigator.languages ?? [])].map((name) => (name ?? "").slice(0, 2));
  return wanted.find((name) => name === "en" || name in LOADERS) ?? "en";
}

// Must have ended before the first call of t.
export async function loadLanguage() {
  const name = language();
  document.documentElement.lang = name === "zh" ? "zh-CN" : name;
  if (name in LOADERS) dictionary = (await LOADERS[name]()).default;
}

// A text in the chosen language, with values in place of {names}; English where there is no translation.
export function t(text, values = {}) {
  return (dictionary[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
