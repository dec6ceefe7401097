// Texts of the page in the chosen language. Code has the English text: t("{count} parts", { count: 3 }).

const KEY = "torchcaps-lab-language";
const LOADERS = { zh: () => import("../zh/index.js") };
const LOCALES = { en: "en", zh: "zh-CN" };
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
  return wanted.find((name) => name in LOCALES) ?? "en";
}

// Must have ended before the first call of t.
export async function loadLanguage() {
  const name = language();
  document.documentElement.lang = LOCALES[name];
  if (!(name in LOADERS)) return;
  dictionary = (await LOADERS[name]()).default;
  translatePage();
}

// A text in the chosen language, with values in place of {names}; English where there is no translation.
export function t(text, values = {}) {
  return (dictionary[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

// A number as the chosen language writes it; options as for Intl.NumberFormat.
export function formatNumber(value, options = {}) {
  return new Intl.NumberFormat(LOCALES[language()], options).format(value);
}

// The texts of index.html: elements with data-t, and labels of elements with data-t-label. An element inside the text,
// such as <em>, is written *so* in the dictionary.
function translatePage() {
  for (const element of document.querySelectorAll("[data-t]")) {
    const inner = [...element.children];
    const english = [...element.childNodes].map((node) => (inner.includes(node) ? `*${node.textContent}*` : node.textContent)).join("");
    const pieces = t(english.replace(/\s+/g, " ").trim()).split("*");
    element.replaceChildren(...pieces.map((piece, index) => {
      if (index % 2 === 0) return piece;
      const marked = inner[(index - 1) / 2];
      marked.textContent = piece;
      return marked;
    }));
  }
  for (const element of document.querySelectorAll("[data-t-label]")) {
    element.setAttribute("aria-label", t(element.getAttribute("aria-label")));
  }
}

// The button shows the other language, by its own name. The page is loaded again: its state is in the address and in
// this tab's storage.
export function connectLanguageButton(button) {
  const other = language() === "zh" ? "en" : "zh";
  // With the letters of the language too: a computer may have no Chinese font.
  const name = document.createElement("span");
  name.lang = LOCALES[other];
  name.textContent = { en: "English", zh: "中文" }[other];
  button.replaceChildren(...(other === "zh" ? ["ZH"] : []), name);
  button.addEventListener("click", () => {
    try {
      localStorage.setItem(KEY, other);
    } catch {
      return; // without storage the choice could not be kept
    }
    location.reload();
  });
}
