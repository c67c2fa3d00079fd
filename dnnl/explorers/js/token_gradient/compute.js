/** @file TokenGradient, computed: gradients, their sum, and where they point in a plane. */

import { clamp } from "../lib/numbers.js";

/** @typedef {[x: number, y: number]} Point */

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
 * The largest size of a number in any of the vectors.
 *
 * @param {Float32Array[]} vectors
 */
export const peak = (vectors) => Math.max(...vectors.map((v) => Math.max(...v.map(Math.abs))));

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
 * @returns {Point}
 */
export function project(v, basis) {
  const along = (/** @type {number} */ axis) =>
    v.reduce((sum, x, i) => sum + x * basis[axis * v.length + i], 0);
  return [along(0), along(1)];
}

/**
 * How much of the gradients a plane keeps: the share of their squares.
 *
 * @param {Point[]} arrows the gradients in the plane
 * @param {Float32Array[]} gradients
 */
export const kept = (arrows, gradients) =>
  arrows.reduce((sum, [x, y]) => sum + x * x + y * y, 0) /
  gradients.reduce((sum, v) => sum + norm(v) ** 2, 0);

/**
 * What any sum of arrows reaches: smallest and largest, of x and of y.
 *
 * @param {Point[]} arrows
 */
export const reach = (arrows) =>
  [0, 1].map((axis) => [
    arrows.reduce((sum, arrow) => sum + Math.min(0, arrow[axis]), 0),
    arrows.reduce((sum, arrow) => sum + Math.max(0, arrow[axis]), 0),
  ]);

/**
 * Where a point of the plane is on a canvas that shows all that `reach` found, with y upwards.
 *
 * @param {Point} point
 * @param {number[][]} ends as `reach` returns them
 * @param {number} width
 * @param {number} height
 * @param {number} room to be left free at each border
 * @returns {Point}
 */
export function spot([x, y], [[left, right], [bottom, top]], width, height, room) {
  const scale = Math.min((width - 2 * room) / (right - left), (height - 2 * room) / (top - bottom));
  return [
    width / 2 + (x - (left + right) / 2) * scale,
    height / 2 - (y - (bottom + top) / 2) * scale,
  ];
}

/**
 * The ends of arrows that follow one another, from the origin.
 *
 * @param {Point[]} arrows
 */
export function chain(arrows) {
  /** @type {Point[]} */
  const ends = [[0, 0]];
  for (const [x, y] of arrows) {
    ends.push([ends[ends.length - 1][0] + x, ends[ends.length - 1][1] + y]);
  }
  return ends;
}

/**
 * The head of an arrow: where its shaft ends, and its two wings.
 *
 * @param {Point} from
 * @param {Point} to the tip
 * @param {number} width of the shaft
 * @returns {{ neck: Point, wings: [Point, Point] }}
 */
export function arrowhead([x0, y0], [x1, y1], width) {
  const angle = Math.atan2(y1 - y0, x1 - x0);
  const length = Math.min(4 + 3 * width, Math.hypot(x1 - x0, y1 - y0));
  /** @type {(turn: number, far: number) => Point} */
  const back = (turn, far) => [
    x1 - far * Math.cos(angle + turn),
    y1 - far * Math.sin(angle + turn),
  ];
  return { neck: back(0, 0.8 * length), wings: [back(-0.42, length), back(0.42, length)] };
}
