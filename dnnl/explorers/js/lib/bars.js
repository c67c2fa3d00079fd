/** @file Horizontal bars with names and values. */

import { h } from "./dom.js";

/**
 * @typedef {object} Bar
 * @property {string} name
 * @property {string} text the value
 * @property {number} share the length of the bar, 0 to 1
 * @property {boolean} shown whether the line is emphasised
 */

/** @param {string} label the text for screen readers */
export function bars(label) {
  const root = h("dl", { class: "dnnl-bars", "aria-label": label });
  const line = (/** @type {Bar} */ { name, text, share, shown }) => {
    const bar = h("span", { style: { width: `${100 * share}%` } });
    return h("div", { class: shown ? "dnnl-bar-shown" : null }, [
      h("dt", {}, name),
      h("dd", { class: "dnnl-bar", "aria-hidden": "true" }, bar),
      h("dd", {}, text),
    ]);
  };
  const set = (/** @type {Bar[]} */ entries) => root.replaceChildren(...entries.map(line));
  return { root, set };
}
