/* On paper a page is complete and black on white: folded parts are open, the dark theme is off.
   Afterwards both are as they were. */
(() => {
  "use strict";
  const root = document.documentElement;
  let before = null;

  function print() {
    if (before) return;
    const closed = [...document.querySelectorAll("article details:not([open])")];
    before = { theme: root.dataset.theme, closed };
    for (const each of closed) each.open = true;
    root.dataset.theme = "light";
  }

  function restore() {
    if (!before) return;
    for (const each of before.closed) each.open = false;
    root.dataset.theme = before.theme;
    before = null;
  }

  addEventListener("beforeprint", print);
  addEventListener("afterprint", restore);
  // Browsers that show the print layout without printing send no such events.
  matchMedia("print").addEventListener("change", ({ matches }) => (matches ? print() : restore()));
})();
