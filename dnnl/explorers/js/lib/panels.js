/** @file Figures with titles, side by side where there is room. */

import { h } from "./dom.js";

/**
 * Figures side by side where there is room, under each other where there is none.
 *
 * @param {...HTMLElement} figures
 */
export const panels = (...figures) => h("div", { class: "dnnl-panels" }, figures);

/**
 * A figure under its title.
 *
 * @param {string} title
 * @param {...HTMLElement} parts
 */
export function panel(title, ...parts) {
  const name = h("p", { class: "dnnl-panel-title" }, title);
  const retitle = (/** @type {string} */ text) => {
    name.textContent = text;
  };
  return { root: h("div", { class: "dnnl-panel" }, name, parts), title: retitle };
}
