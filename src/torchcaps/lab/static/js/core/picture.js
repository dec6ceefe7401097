// A picture of an element as the page shows it: boxes, canvases, SVG shapes and text, drawn again on a canvas. An SVG
// cannot be drawn as an image here, because the page's policy allows no image from memory.

const SCALE = 2;
const MARGIN = 16; // around the view, in pixels of the page
const SHAPES = "path, line, circle, ellipse, rect, polyline, polygon";

// A PNG as a Blob.
export function pictureOf(root) {
  const box = root.getBoundingClientRect();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [box.width, box.height].map((side) => Math.ceil((side + 2 * MARGIN) * SCALE));
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  const base = new DOMMatrix([SCALE, 0, 0, SCALE, (MARGIN - box.left) * SCALE, (MARGIN - box.top) * SCALE]);
  context.setTransform(base);
  drawElement(context, base, root, 1);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
}

function drawElement(context, base, element, opacity) {
  const style = getComputedStyle(element);
  const html = element.namespaceURI.endsWith("html");
  if (style.display === "none" || style.visibility === "hidden" || element.matches("input, .skip")) return;
  if (element.matches("details:not([open]) > :not(summary)")) return;
  context.save();
  context.globalAlpha = opacity * Number(style.opacity);
  if (element.matches(SHAPES)) drawShape(context, base, element, style);
  else if (html) drawBox(context, element, style);
  if (html && style.overflowX === "hidden") context.clip(outlineOf(element, style)); // bars are moved out of their rail
  for (const node of element.childNodes) {
    if (node.nodeType === 1) drawElement(context, base, node, opacity * Number(style.opacity));
    else if (node.nodeType === 3 && !element.matches("title")) drawText(context, node, style);
  }
  context.restore();
}

function outlineOf(element, style) {
  const { left, top, width, height } = element.getBoundingClientRect();
  const line = parseFloat(style.borderTopWidth);
  const outline = new Path2D();
  const round = Math.max(0, Math.min(parseFloat(style.borderTopLeftRadius) || 0, width / 2, height / 2) - line / 2);
  outline.roundRect(left + line / 2, top + line / 2, Math.max(0, width - line), Math.max(0, height - line), round);
  return outline;
}

function drawBox(context, element, style) {
  const { left, top, width, height } = element.getBoundingClientRect();
  const line = parseFloat(style.borderTopWidth);
  const outline = outlineOf(element, style);
  context.fillStyle = style.backgroundColor;
  context.fill(outline);
  if (element.matches("canvas")) {
    context.save();
    context.clip(outline);
    context.drawImage(element, left, top, width, height);
    context.restore();
  }
  if (!line) return;
  context.lineWidth = line;
  context.strokeStyle = style.borderTopColor;
  context.stroke(outline);
}

// Word by word, so that lines break as on the page.
function drawText(context, node, style) {
  // Not style.font, which is empty where digits have equal widths.
  context.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  context.fillStyle = node.parentElement.namespaceURI.endsWith("svg") ? style.fill : style.color;
  context.textBaseline = "alphabetic";
  const range = document.createRange();
  for (const { index, 0: word } of node.textContent.matchAll(/[^\s\u3000-\u9fff\uff00-\uffef]+|[\u3000-\u9fff\uff00-\uffef]/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const { left, top, height } = range.getBoundingClientRect();
    const { fontBoundingBoxAscent: above, fontBoundingBoxDescent: below } = context.measureText(word);
    context.fillText(word, left, top + (height + above - below) / 2);
  }
}

function drawShape(context, base, shape, style) {
  const place = shape.getScreenCTM();
  context.save();
  context.setTransform(base.multiply(place));
  const path = pathOf(shape);
  if (style.fill !== "none") {
    context.globalAlpha *= Number(style.fillOpacity);
    context.fillStyle = style.fill;
    context.fill(path);
    context.globalAlpha /= Number(style.fillOpacity) || 1;
  }
  if (style.stroke !== "none") {
    const fixed = style.vectorEffect === "non-scaling-stroke" ? Math.hypot(place.a, place.b) : 1;
    context.globalAlpha *= Number(style.strokeOpacity);
    context.strokeStyle = style.stroke;
    context.lineWidth = parseFloat(style.strokeWidth) / fixed;
    context.lineCap = style.strokeLinecap;
    context.setLineDash(style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(",").map((dash) => parseFloat(dash) / fixed));
    context.stroke(path);
  }
  context.restore();
}

function pathOf(shape) {
  const number = (name) => shape[name].baseVal.value;
  const path = new Path2D(shape.matches("path") ? shape.getAttribute("d") : "");
  if (shape.matches("line")) {
    path.moveTo(number("x1"), number("y1"));
    path.lineTo(number("x2"), number("y2"));
  } else if (shape.matches("circle")) path.arc(number("cx"), number("cy"), number("r"), 0, 2 * Math.PI);
  else if (shape.matches("ellipse")) path.ellipse(number("cx"), number("cy"), number("rx"), number("ry"), 0, 0, 2 * Math.PI);
  else if (shape.matches("rect")) path.rect(number("x"), number("y"), number("width"), number("height"));
  else if (shape.matches("polyline, polygon")) {
    [...shape.points].forEach(({ x, y }) => path.lineTo(x, y));
    if (shape.matches("polygon")) path.closePath();
  }
  return path;
}
