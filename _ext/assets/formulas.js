/* A formula that is wider than its line scrolls, and must then be reached by keyboard too. */
(() => {
  "use strict";
  const article = document.querySelector("article");
  if (!article) return;

  function mark() {
    for (const formula of article.querySelectorAll("mjx-container")) {
      // (what is out of sight is not laid out yet, and not for this)
      if (formula.checkVisibility?.({ contentVisibilityAuto: true }) === false) continue;
      if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
      else formula.removeAttribute("tabindex");
    }
  }

  // Whatever changes the room of a formula changes the height of the article, or it comes into sight.
  new ResizeObserver(mark).observe(article);
  article.addEventListener("contentvisibilityautostatechange", mark);
})();
