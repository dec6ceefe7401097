// Images that arrive as bytes in base64: a list of rows of numbers from 0 to 1 for each.

export function unpack(text, size) {
  const bytes = atob(text);
  const count = bytes.length / (size * size);
  return Array.from({ length: count }, (_image, index) => Array.from({ length: size }, (_row, y) =>
    Array.from({ length: size }, (_column, x) => bytes.charCodeAt((index * size + y) * size + x) / 255)));
}
