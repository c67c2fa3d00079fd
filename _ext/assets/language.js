/* The reader's language: remembered in this browser, offered once, never imposed. */
(() => {
  "use strict";
  const KEY = "dnnl-language";
  const link = document.querySelector("a.dnnl-language");
  if (!link) return;
  const offer = document.querySelector(".dnnl-offer");
  const here = document.documentElement.lang;

  function remember(language) {
    try { localStorage.setItem(KEY, language); } catch { /* storage is off: asked again next time */ }
  }

  function remembered() {
    try { return localStorage.getItem(KEY); } catch { return null; }
  }

  /** Lead to the part of the counterpart that is in sight here; parts are numbered alike. */
  function aim({ currentTarget }) {
    const part = [...document.querySelectorAll('[id^="part-"]')]
      .findLast((each) => each.getBoundingClientRect().top < innerHeight / 3);
    currentTarget.hash = scrollY > innerHeight / 3 && part ? part.id : "";
    currentTarget.search = location.search; // what was searched for
    remember(currentTarget.hreflang);
  }

  for (const each of [link, offer.querySelector("a")]) each.addEventListener("click", aim);
  offer.querySelector("button").addEventListener("click", () => {
    offer.hidden = true;
    remember(here);
    link.focus();
  });
  // Arrived from the other edition: explorers above may have grown since the browser jumped here.
  if (location.hash.startsWith("#part-") && performance.getEntriesByType("navigation")[0]?.type === "navigate") {
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }
  // What the reader chose counts, else the first language of the browser that the book speaks.
  const wanted = remembered() ?? navigator.languages.find((language) => /^(zh|en)\b/i.test(language));
  offer.hidden = !wanted || wanted.slice(0, 2).toLowerCase() === here.slice(0, 2);
  link.dataset.ready = "";
})();
