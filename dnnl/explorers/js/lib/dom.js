/** @file Elements, the frame of an explorer, and what happens to it: keys, frames, themes. */

/** @import { Language, Model, Stop, Texts } from "./types.d.ts" */

/**
 * Make an element: h("button", { class: "x", onclick: f }, "text", child, …).
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any> | null} [props] attributes; `on…` adds a listener
 * @param {...any} children nodes, texts, numbers, lists of these; null is left out
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value == null || value === false) continue;
    if (key.startsWith("on")) el.addEventListener(key.slice(2).toLowerCase(), value);
    else if (key === "dataset") Object.assign(el.dataset, value);
    else if (key === "style" && typeof value === "object") Object.assign(el.style, value);
    else el.setAttribute(key, value === true ? "" : value);
  }
  el.append(...children.flat().filter((child) => child != null));
  return el;
}

/** An id that no other element of the page has. */
export const uniqueId = () => `dnnl-${Math.random().toString(36).slice(2)}`;

/**
 * The language of the labels: the widget's own, else the page's.
 *
 * @param {Model} model
 * @param {HTMLElement} el
 * @returns {Language}
 */
export function language(model, el) {
  const around = /** @type {HTMLElement | null} */ (el.closest?.("[lang]"));
  const lang = model.get("lang") || around?.lang || document.documentElement.lang;
  return lang.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/**
 * The texts in a language, or in the only one that there is: a notebook has both, a page of the
 * book has its own.
 *
 * @template Text
 * @param {Texts<Text>} texts
 * @param {Language} lang
 */
export const textsIn = (texts, lang) => /** @type {Text} */ (texts[lang] ?? texts.en ?? texts.zh);

/**
 * The box of an explorer: its controls, what they act on, and a caption that says what to try.
 *
 * @param {HTMLElement} el
 * @param {{ label: string, room?: number[] }} options room: `model.get("_room")`, the heights in
 *   pixels that are kept free on a phone and on a wide screen before the explorer is drawn
 */
export function frame(el, { label, room }) {
  const controls = h("div", { class: "dnnl-controls" });
  const stage = h("div", { class: "dnnl-stage" });
  const caption = h("p", { class: "dnnl-caption" });
  const parts = [controls, stage, caption];
  const root = h("div", { class: "dnnl-explorer", role: "group", "aria-label": label }, parts);
  ["--dnnl-room-narrow", "--dnnl-room"].forEach((name, i) => {
    if (room) root.style.setProperty(name, `${room[i]}px`);
  });
  el.append(root);
  keepKeys(root);
  return { root, controls, stage, caption };
}

/**
 * Keep plain keys for the control that has the focus. JupyterLab takes arrows, letters and Enter
 * for its cells before the page sees them (x would cut the cell), unless the element says so.
 *
 * @param {HTMLElement} root
 */
function keepKeys(root) {
  const mark = (/** @type {KeyboardEvent} */ event) => {
    if (!root.isConnected) return globalThis.removeEventListener("keydown", mark, true);
    const plain = !(event.ctrlKey || event.metaKey || event.altKey || event.shiftKey);
    const target = /** @type {Element} */ (event.target);
    target.toggleAttribute?.("data-lm-suppress-shortcuts", plain);
  };
  root.addEventListener("focusin", () => globalThis.addEventListener("keydown", mark, true));
  root.addEventListener("focusout", () => globalThis.removeEventListener("keydown", mark, true));
}

/** A line that says what is shown: at once for the eye, after a pause for a screen reader. */
export function statusLine() {
  const seen = h("p", { class: "dnnl-says", "aria-hidden": "true" });
  const heard = h("p", { class: "dnnl-hidden", "aria-live": "polite" });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const say = (/** @type {string} */ text) => {
    seen.textContent = text;
    clearTimeout(timer);
    if (heard.textContent) timer = setTimeout(() => heard.textContent = text, 400);
    else heard.textContent = text;
  };
  const root = h("div", { class: "dnnl-status" }, seen, heard);
  return { root, say, stop: () => clearTimeout(timer) };
}

/**
 * Act on keys without modifiers. A handler that returns false lets the key pass.
 *
 * @param {HTMLElement} el
 * @param {Record<string, (event: KeyboardEvent) => unknown>} handlers by `event.key`
 * @returns {Stop}
 */
export function onKeys(el, handlers) {
  const listener = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = handlers[event.key];
    if (act && act(event) !== false) event.preventDefault();
  };
  el.addEventListener("keydown", listener);
  return () => el.removeEventListener("keydown", listener);
}

/**
 * Wrap a function so that many calls make one, at the next frame. The first drawing is at a frame
 * too, when the style sheets are there.
 *
 * @param {() => void} fn
 */
export function schedule(fn) {
  let id = 0;
  const later = () => {
    id ||= requestAnimationFrame(() => {
      id = 0;
      fn();
    });
  };
  later.cancel = () => {
    cancelAnimationFrame(id);
    id = 0;
  };
  return later;
}

/**
 * Call `fn` when the page turns light or dark.
 *
 * @param {() => void} fn
 * @returns {Stop}
 */
export function onTheme(fn) {
  const watch = new MutationObserver(fn);
  const attributeFilter = ["data-theme", "data-jp-theme-light", "class", "theme"];
  watch.observe(document.documentElement, { attributes: true, attributeFilter });
  watch.observe(document.body, { attributes: true, attributeFilter });
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", fn);
  return () => {
    watch.disconnect();
    media.removeEventListener("change", fn);
  };
}

/**
 * A colour of the style sheet: color(root, "--dnnl-patch").
 *
 * @param {Element} el
 * @param {string} name
 */
export const color = (el, name) => getComputedStyle(el).getPropertyValue(name).trim();
