/** @file EraseAndReconstruct, computed: the eraser's way, and what the model fills in. */

/** @typedef {[row: number, column: number]} Cell */

/**
 * The patches under the eraser at a cell: the first row and column, and how many of each.
 *
 * @param {Cell} cell
 * @param {number} brush how many patches wide the eraser is
 * @param {Cell} grid rows and columns
 * @returns {[top: number, left: number, rows: number, columns: number]}
 */
export function under([row, column], brush, [rows, columns]) {
  const before = (brush - 1) >> 1, after = (brush >> 1) + 1;
  const top = Math.max(0, row - before), left = Math.max(0, column - before);
  return [top, left, Math.min(rows, row + after) - top, Math.min(columns, column + after) - left];
}

/**
 * The erased patches after the eraser went from one cell to another.
 *
 * @param {number[]} erased
 * @param {Cell} from
 * @param {Cell} to
 * @param {boolean} hide whether it erases; else it restores
 * @param {number} brush
 * @param {Cell} grid
 */
export function rub(erased, from, to, hide, brush, grid) {
  const found = new Set(erased);
  const steps = Math.max(1, Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1]));
  for (let k = 0; k <= steps; k++) {
    const row = Math.round(from[0] + ((to[0] - from[0]) * k) / steps);
    const column = Math.round(from[1] + ((to[1] - from[1]) * k) / steps);
    const [top, left, high, wide] = under([row, column], brush, grid);
    for (let r = top; r < top + high; r++) {
      for (let c = left; c < left + wide; c++) {
        if (hide) found.add(r * grid[1] + c);
        else found.delete(r * grid[1] + c);
      }
    }
  }
  return [...found].sort((a, b) => a - b);
}

/**
 * A table of positions with its rows of patches in another order; the class row stays.
 *
 * @param {Float32Array} table (1 + N) × dim
 * @param {number} dim
 * @param {number[]} order row i comes from row order[i]
 */
export function shuffledTable(table, dim, order) {
  const out = table.slice();
  order.forEach((from, to) => {
    out.set(table.subarray((from + 1) * dim, (from + 2) * dim), (to + 1) * dim);
  });
  return out;
}

/**
 * The pixels of an image with the model's patches in its holes.
 *
 * @param {Uint8ClampedArray} rgba of the image, H · W · 4
 * @param {Float32Array} patches (N, 3 · P · Q), standardised
 * @param {Uint8Array} mask
 * @param {object} sizes
 * @param {number} sizes.width of the image
 * @param {[number, number]} sizes.patch_size
 * @param {number} sizes.mean
 * @param {number} sizes.std
 */
export function filled(rgba, patches, mask, { width, patch_size: [p, q], mean, std }) {
  const out = new Uint8ClampedArray(rgba), columns = width / q;
  mask.forEach((hidden, i) => {
    if (!hidden) return;
    const top = Math.floor(i / columns) * p, left = (i % columns) * q;
    for (let c = 0; c < 3; c++) {
      for (let k = 0; k < p * q; k++) {
        const value = patches[(i * 3 + c) * p * q + k] * std + mean;
        out[4 * ((top + Math.floor(k / q)) * width + left + (k % q)) + c] = 255 * value;
      }
    }
  });
  return out;
}
