/** @file Canvases, pictures and heat maps. */

import { h } from "./dom.js";
import { viridis } from "./numbers.js";

/** @typedef {ReturnType<typeof canvas>} Canvas */

/**
 * A canvas drawn in units of width × height, sharp on every screen, as wide as there is room.
 *
 * @param {number} width
 * @param {number} height
 * @param {string} label the text for screen readers
 */
export function canvas(width, height, label) {
  const root = h("canvas", { role: "img", "aria-label": label, class: "dnnl-canvas" });
  root.style.maxWidth = `${width}px`;
  root.style.aspectRatio = `${width} / ${height}`;
  const ctx = /** @type {CanvasRenderingContext2D} */ (root.getContext("2d"));
  /** Size the pixels to the screen's and clear; call before drawing. */
  const fit = () => {
    const ratio = Math.min(3, Math.max(1, globalThis.devicePixelRatio || 1));
    const [w, t] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (root.width !== w || root.height !== t) [root.width, root.height] = [w, t];
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
  };
  /**
   * Where a pointer event happened, in the same units.
   *
   * @param {MouseEvent} event
   */
  const at = (event) => {
    const box = root.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width) * width,
      ((event.clientY - box.top) / box.height) * height,
    ];
  };
  const name = (/** @type {string} */ text) => root.setAttribute("aria-label", text);
  fit();
  return { root, ctx, fit, at, width, height, name };
}

/**
 * Draw pixels in the box x, y, w, t without smoothing.
 *
 * @param {CanvasRenderingContext2D} ctx
 * @param {ImageData} image
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} t
 */
export function picture(ctx, image, x, y, w, t) {
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(sheetOf(image), x, y, w, t);
}

/**
 * Pixels as something that `drawImage` can cut from.
 *
 * @param {ImageData} image
 */
export function sheetOf(image) {
  const sheet = h("canvas", { width: image.width, height: image.height });
  const ctx = /** @type {CanvasRenderingContext2D} */ (sheet.getContext("2d"));
  ctx.putImageData(image, 0, 0);
  return sheet;
}

/**
 * Rows × cols numbers as a sheet of colours, a pixel each.
 *
 * @param {ArrayLike<number> & Iterable<number>} values
 * @param {number} rows
 * @param {number} cols
 * @param {{ min?: number, max?: number }} [range] the numbers that get the first and the last
 *   colour: by default the smallest and the largest
 */
export function heatSheet(values, rows, cols, range = {}) {
  let { min: low = Infinity, max: high = -Infinity } = range;
  for (const v of values) {
    if (range.min == null && v < low) low = v;
    if (range.max == null && v > high) high = v;
  }
  const image = new ImageData(cols, rows), scale = high > low ? 1 / (high - low) : 0;
  for (let i = 0; i < rows * cols; i++) {
    image.data.set(viridis((values[i] - low) * scale), 4 * i);
    image.data[4 * i + 3] = 255;
  }
  return sheetOf(image);
}

/**
 * Draw rows × cols numbers as a heat map.
 *
 * @param {CanvasRenderingContext2D} ctx
 * @param {ArrayLike<number> & Iterable<number>} values
 * @param {number} rows
 * @param {number} cols
 * @param {{ min?: number, max?: number, x?: number, y?: number, w?: number, h?: number }} [options]
 *   the range of `heatSheet`, and the box to draw in
 */
export function heatMap(ctx, values, rows, cols, options = {}) {
  const { x = 0, y = 0, w = cols, h: t = rows } = options;
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(heatSheet(values, rows, cols, options), x, y, w, t);
}

/**
 * Outline a box so that it shows on every colour.
 *
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} t
 * @param {[string, number][]} [lines] colours and widths, from below
 */
export function outline(ctx, x, y, w, t, lines = [["#fff", 4], ["#000", 2]]) {
  for (const [style, width] of lines) {
    ctx.strokeStyle = style;
    ctx.lineWidth = width;
    ctx.strokeRect(x, y, w, t);
  }
}

/**
 * t · w · 3 bytes to pixels.
 *
 * @param {ArrayLike<number>} data
 * @param {number} w
 * @param {number} t
 */
export function rgb(data, w, t) {
  const image = new ImageData(w, t);
  for (let i = 0; i < w * t; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = data[3 * i + c];
    image.data[4 * i + 3] = 255;
  }
  return image;
}

/**
 * The pixels of an image file in a trait.
 *
 * @param {Uint8Array<ArrayBuffer>} data
 */
export async function decode(data, type = "image/png") {
  const options = /** @type {const} */ ({
    colorSpaceConversion: "none",
    premultiplyAlpha: "none",
  });
  const image = await createImageBitmap(new Blob([data], { type }), options);
  const sheet = h("canvas", { width: image.width, height: image.height });
  const ctx = /** @type {CanvasRenderingContext2D} */ (
    sheet.getContext("2d", { willReadFrequently: true })
  );
  ctx.drawImage(image, 0, 0);
  return ctx.getImageData(0, 0, image.width, image.height);
}
