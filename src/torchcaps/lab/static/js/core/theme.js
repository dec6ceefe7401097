// A plain script that runs before the first paint, so that the page does not flash in the other theme.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const key = "torchcaps-lab-theme";

  function stored() {
    try {
      return localStorage.getItem(key);
    } catch {
      return null; // storage may be disabled; then the system's theme applies
    }
  }

  function apply() {
    root.dataset.theme = stored() ?? (system.matches ? "dark" : "light");
    document.dispatchEvent(new Event("themechange"));
  }

  function toggle() {
    const next = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(key, next);
      apply();
    } catch {
      root.dataset.theme = next;
      document.dispatchEvent(new Event("themechange"));
    }
  }

  apply();
  system.addEventListener("change", apply);
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-theme-toggle]")) toggle();
  });
})();
