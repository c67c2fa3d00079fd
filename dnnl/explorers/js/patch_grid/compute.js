/** @file PatchGrid, computed: every quantity that the figure shows. */

import { clamp } from "../lib/numbers.js";

/** @typedef {ReturnType<typeof facts>} Facts */

/**
 * Every quantity, from the two numbers that the reader sets.
 *
 * @param {number} height of the photograph
 * @param {number} width
 * @param {number} P the side of a patch
 * @param {number} picked the index of the picked patch; the last one if there are fewer
 */
export function facts(height, width, P, picked) {
  const rows = Math.floor(height / P), cols = Math.floor(width / P), n = rows * cols;
  const index = Math.min(picked, n - 1);
  const lost = height * width - n * P * P;
  return {
    P,
    rows,
    cols,
    n,
    index,
    lost,
    row: Math.floor(index / cols),
    col: index % cols,
    width: 3 * P * P,
    pairs: (n * n).toLocaleString("en"),
    percent: ((100 * lost) / (height * width)).toFixed(1),
    odd: [height, width].filter((side, i, all) => side % P && all.indexOf(side) === i).join(", "),
  };
}

/**
 * The patch of another grid in which the middle of the picked patch lies.
 *
 * @param {Facts} from
 * @param {Facts} to
 */
export function samePlace(from, to) {
  const row = clamp(Math.floor(((from.row + 0.5) * from.P) / to.P), 0, to.rows - 1);
  const col = clamp(Math.floor(((from.col + 0.5) * from.P) / to.P), 0, to.cols - 1);
  return row * to.cols + col;
}

/**
 * The P · P bytes of one channel of a patch, row by row.
 *
 * @param {ArrayLike<number>} rgba the photograph's pixels
 * @param {number} width of the photograph
 * @param {Facts} grid
 * @param {number} i the patch
 * @param {number} channel
 */
export function patchValues(rgba, width, { P, cols }, i, channel) {
  const x = (i % cols) * P, y = Math.floor(i / cols) * P;
  return Array.from(
    { length: P * P },
    (_, k) => rgba[4 * ((y + Math.floor(k / P)) * width + x + (k % P)) + channel],
  );
}
