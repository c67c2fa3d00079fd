/**
 * @file SimilarityMap, computed: maps of similarities, and what is said of them. Row 0 of a table
 *   is the class token's, patch i has row i + 1.
 */

import { clamp } from "../lib/numbers.js";

/** @typedef {"trained" | "sincos" | "random"} Table */

const TABLES = /** @type {Table[]} */ (["trained", "sincos", "random"]);

/**
 * What the traits say, made safe: a linked control may have set anything.
 *
 * @param {any} table
 * @param {any} token
 * @param {any} scale
 * @param {number} most the last row of the table
 * @returns {{ table: Table, token: number, own: boolean }}
 */
export const safe = (table, token, scale, most) => ({
  table: TABLES.includes(table) ? table : TABLES[0],
  token: clamp(Math.round(token) || 0, 0, most),
  own: scale === "own",
});

/**
 * Row and column of a patch on the grid.
 *
 * @param {number} token
 * @param {number} columns
 * @returns {[number, number]}
 */
export const place = (token, columns) => [
  Math.floor((token - 1) / columns),
  (token - 1) % columns,
];

/**
 * The smallest similarity of two patches.
 *
 * @param {Float32Array[]} maps for each token its similarity to all tokens
 */
export const smallest = (maps) =>
  Math.min(...maps.slice(1).map((row) => Math.min(...row.subarray(1))));

/**
 * The patch that is most like a token, other than itself.
 *
 * @param {Float32Array} patches the token's similarity to each patch
 * @param {number} token
 */
export function mostAlike(patches, token) {
  let most = -1;
  patches.forEach((value, i) => {
    if (i !== token - 1 && (most < 0 || value > patches[most])) most = i;
  });
  return most;
}

/**
 * The mean similarity of a patch to its four neighbours, and to all patches further away.
 *
 * @param {Float32Array} patches the patch's similarity to each patch
 * @param {number} token
 * @param {number} columns
 */
export function nearAndFar(patches, token, columns) {
  const [row, column] = place(token, columns);
  let near = 0, neighbours = 0, far = 0, others = 0;
  patches.forEach((value, i) => {
    const [r, c] = place(i + 1, columns);
    const steps = Math.abs(r - row) + Math.abs(c - column);
    if (steps === 1) [near, neighbours] = [near + value, neighbours + 1];
    if (steps > 1) [far, others] = [far + value, others + 1];
  });
  return { near: near / neighbours, far: far / others };
}

/**
 * All similarity maps in one picture: at the place of each patch its own map.
 *
 * @param {Float32Array[]} maps for each token its similarity to all tokens
 * @param {number} rows
 * @param {number} columns
 */
export function mosaic(maps, rows, columns) {
  const width = columns * columns, out = new Float32Array(rows * rows * width);
  maps.slice(1).forEach((map, i) => {
    const [r, c] = place(i + 1, columns);
    for (let j = 0; j < rows * columns; j++) {
      const y = r * rows + Math.floor(j / columns), x = c * columns + (j % columns);
      out[y * width + x] = map[j + 1];
    }
  });
  return out;
}
