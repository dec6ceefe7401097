// The calm line at the foot of the page: what went wrong, until something goes right.

const line = document.getElementById("status");

export function say(text) {
  if (line.textContent !== text) line.textContent = text;
}
