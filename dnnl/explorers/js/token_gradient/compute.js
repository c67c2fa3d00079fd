/** @file TokenGradient, computed: gradients, their sum, and where they point in a plane. */

import { clamp } from "../lib/numbers.js";

// purple, white, orange: matplotlib's PuOr, reversed
const DIVERGING = ["2d004b", "8073ac", "f7f7f7", "e08214", "7f3b08"]
  .map((code) => [0, 2, 4].map((i) => parseInt(code.slice(i, i + 2), 16)));

/**
 * The colour [r, g, b] of t in [-1, 1].
 *
 * @param {number} t
 */
export function diverging(t) {
  const x = (clamp(t, -1, 1) + 1) * 2, i = Math.min(3, Math.floor(x));
  return [0, 1, 2].map((c) =>
    Math.round(DIVERGING[i][c] + (x - i) * (DIVERGING[i + 1][c] - DIVERGING[i][c]))
  );
}

/**
 * The length of a vector.
 *
 * @param {Float32Array} v
 */
export const norm = (v) => Math.hypot(...v);

/**
 * The gradient of a batch: the sum of its images' gradients, or their mean.
 *
 * @param {Float32Array[]} gradients of all images
 * @param {number[]} chosen the images of the batch
 * @param {"sum" | "mean"} reduction
 */
export function batchGradient(gradients, chosen, reduction) {
  const divisor = reduction === "mean" ? chosen.length : 1;
  return gradients[0].map((_, d) => chosen.reduce((sum, i) => sum + gradients[i][d], 0) / divisor);
}

/**
 * The coordinates of a vector in a plane.
 *
 * @param {Float32Array} v
 * @param {Float32Array} basis the two axes, one after the other
 * @returns {[number, number]}
 */
export function project(v, basis) {
  const along = (/** @type {number} */ axis) =>
    v.reduce((sum, x, i) => sum + x * basis[axis * v.length + i], 0);
  return [along(0), along(1)];
}

/**
 * What any sum of arrows reaches: smallest and largest, of x and of y.
 *
 * @param {[number, number][]} arrows
 */
export const reach = (arrows) =>
  [0, 1].map((axis) => [
    arrows.reduce((sum, arrow) => sum + Math.min(0, arrow[axis]), 0),
    arrows.reduce((sum, arrow) => sum + Math.max(0, arrow[axis]), 0),
  ]);
