// Lints the lab's page: `npm ci && npm run lint`.

import js from "@eslint/js";

// What the page uses of the browser. A name that is missing here is reported as undefined.
const BROWSER = [
  "Blob",
  "DOMMatrix",
  "Event",
  "OffscreenCanvas",
  "Path2D",
  "ResizeObserver",
  "URL",
  "addEventListener",
  "cancelAnimationFrame",
  "clearInterval",
  "clearTimeout",
  "console",
  "createImageBitmap",
  "crypto",
  "document",
  "fetch",
  "getComputedStyle",
  "history",
  "localStorage",
  "URLSearchParams",
  "atob",
  "btoa",
  "location",
  "matchMedia",
  "navigator",
  "performance",
  "requestAnimationFrame",
  "scrollTo",
  "sessionStorage",
  "setInterval",
  "setTimeout",
];

export default [
  js.configs.recommended,
  {
    files: ["src/torchcaps/lab/static/js/**/*.js"],
    languageOptions: { globals: Object.fromEntries(BROWSER.map((name) => [name, "readonly"])) },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "array-callback-return": "error",
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "no-duplicate-imports": "error",
      "no-implied-eval": "error",
      "no-eval": "error",
      "no-shadow": "error",
      "no-unused-expressions": ["error", { allowShortCircuit: true }],
      "no-use-before-define": ["error", { functions: false, variables: false }],
      "no-useless-return": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },
  // Loaded without type="module", so that it runs before the first paint.
  { files: ["**/core/theme.js"], languageOptions: { sourceType: "script" } },
];
