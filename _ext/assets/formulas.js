/* A formula that is wider than its line scrolls, and must then be reached by keyboard too. */
(() => {
  "use strict";
  function mark() {
    for (const formula of document.querySelectorAll("mjx-container")) {
      if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
      else formula.removeAttribute("tabindex");
    }
  }

  // (MathJax may come before or after this script; its page is set when the promise is kept)
  const started = () => window.MathJax?.startup?.promise?.then(() => {
    mark();
    addEventListener("resize", mark);
    document.fonts.addEventListener("loadingdone", mark);
  });
  if (document.readyState === "complete") started();
  else addEventListener("load", started);
})();
