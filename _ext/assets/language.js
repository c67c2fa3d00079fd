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
  /** Keep a part in sight while formulas and explorers above it find their size: until the reader acts. */
  function stay(part) {
    const sizes = new ResizeObserver(() => part.scrollIntoView({ behavior: "instant" }));
    const stop = () => sizes.disconnect();
    for (const act of ["wheel", "touchstart", "pointerdown", "keydown"]) {
      addEventListener(act, stop, { once: true, passive: true });
    }
    setTimeout(stop, 10_000);
    sizes.observe(document.querySelector("article")); // and at once, for a first time
  }

  // Arrived from the other edition
  const part = location.hash.startsWith("#part-") && document.getElementById(location.hash.slice(1));
  if (part && performance.getEntriesByType("navigation")[0]?.type === "navigate") stay(part);
  // What the reader chose counts, else the first language of the browser that the book speaks.
  const wanted = remembered() ?? navigator.languages.find((language) => /^(zh|en)\b/i.test(language));
  offer.hidden = !wanted || wanted.slice(0, 2).toLowerCase() === here.slice(0, 2);
  link.dataset.ready = "";
})();
