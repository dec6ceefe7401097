// A plain script, run before the first paint so that a chosen theme never flashes.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const key = "torchcaps-lab-theme";

  function chosen() {
    try {
      return localStorage.getItem(key);
    } catch {
      return null; // storage may be forbidden; the system's choice then holds
    }
  }

  function apply() {
    root.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
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
