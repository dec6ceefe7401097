// Marks the page as busy while a view opens or an answer is awaited: for screen readers, and for tests.

const stage = document.getElementById("stage");
let open = 0;

export function begin() {
  open += 1;
  stage.setAttribute("aria-busy", "true");
}

export function end() {
  open -= 1;
  if (open === 0) stage.setAttribute("aria-busy", "false");
}
