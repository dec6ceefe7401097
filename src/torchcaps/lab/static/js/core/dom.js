// Creates elements: h("p", { class: "soft" }, "text"). Attributes that start with "on" are event listeners.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// A box with a title; `width` is a class of style/layout.css such as "w4".
export function card(width, title, hint, ...children) {
  const heading = h("header", {}, h("h2", {}, title), hint ? h("p", {}, hint) : null);
  return h("section", { class: `card ${width}`, "aria-label": title }, heading, ...children);
}

export function button(label, onclick, kind = "") {
  return h("button", { type: "button", class: `button ${kind}`.trim(), onclick }, label);
}

const SHAPES = {
  play: "M3 1.5v11l9-5.5z",
  pause: "M3 1.5h3v11H3zM8 1.5h3v11H8z",
  back: "M10.5 1.5v11L4 7zM2.5 1.5H4v11H2.5z",
  reset: "M7 2.5V0.5L3.5 3.5L7 6.5V4.3a3.4 3.4 0 1 1-3.4 3.4H1.8A5.2 5.2 0 1 0 7 2.5z",
  forward: "M3.5 1.5v11L10 7zM10 1.5h1.5v11H10z",
};

export function icon(name) {
  return svg("svg", { viewBox: "0 0 14 14", class: "icon", "aria-hidden": "true" }, svg("path", { d: SHAPES[name] }));
}
