/** @file Pictures of images that consist of patches. */

import { color, h } from "../lib/dom.js";
import { outline, picture } from "../lib/draw.js";

/** @import { Canvas } from "../lib/draw.js" */

/** The side of a patch, in the units of the canvases. */
export const STEP = 20;

/**
 * A canvas under its title.
 *
 * @param {string} title
 * @param {{ root: HTMLCanvasElement }} view
 */
export function titled(title, view) {
  const caption = h("figcaption", {}, title);
  const root = h("figure", { class: "dnnl-live-view" }, caption, view.root);
  const retitle = (/** @type {string} */ text) => {
    caption.textContent = text;
  };
  return { root, retitle };
}

/**
 * Draw an image over the whole view.
 *
 * @param {Pick<Canvas, "fit" | "ctx" | "width" | "height">} view
 * @param {ImageData} pixels
 */
export function drawImage(view, pixels) {
  view.fit();
  picture(view.ctx, pixels, 0, 0, view.width, view.height);
}

/**
 * Cover the hidden patches of a view by the paper, with a stroke through each.
 *
 * @param {Pick<Canvas, "ctx">} view
 * @param {HTMLElement} root
 * @param {Uint8Array} mask not 0 where a patch is hidden
 * @param {number} columns
 */
export function drawHoles({ ctx }, root, mask, columns) {
  ctx.fillStyle = color(root, "--dnnl-raised");
  ctx.strokeStyle = color(root, "--dnnl-line");
  ctx.lineWidth = 1;
  ctx.beginPath();
  mask.forEach((hidden, i) => {
    if (!hidden) return;
    const x = (i % columns) * STEP, y = Math.floor(i / columns) * STEP;
    ctx.fillRect(x, y, STEP, STEP);
    ctx.moveTo(x + 0.3 * STEP, y + 0.7 * STEP);
    ctx.lineTo(x + 0.7 * STEP, y + 0.3 * STEP);
  });
  ctx.stroke();
}

/**
 * Outline rows × columns patches from (row, column) so that it shows on any picture.
 *
 * @param {Pick<Canvas, "ctx">} view
 * @param {HTMLElement} root
 * @param {number} row
 * @param {number} column
 */
export function drawFrame({ ctx }, root, row, column, rows = 1, columns = 1) {
  outline(ctx, column * STEP, row * STEP, columns * STEP, rows * STEP, [
    ["#fff", 5],
    [color(root, "--dnnl-class-token"), 2.5],
  ]);
}
