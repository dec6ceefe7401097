// Numbered axes: round numbers between two limits, and how to write them.

// At most about `count` round numbers, steps of 1, 2 or 5 times a power of ten.
export function ticks(low, high, count = 5) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

// With at most three significant digits.
export function shortNumber(value) {
  return numberText(Number(value.toPrecision(3)));
}

// Zero has no sign, also after rounding.
export function numberText(value, digits = null) {
  const text = digits === null ? String(Number(value.toPrecision(6))) : value.toFixed(digits);
  return text.replace("-", Number(text) === 0 ? "" : "−");
}
