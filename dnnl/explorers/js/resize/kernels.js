/**
 * @file Resizing a table of positions on its grid: the numbers of
 *   torch.nn.functional.interpolate.
 *
 *   Every mode is separable: along one axis, each new cell is a weighted sum of a few old cells,
 *   its taps. A resize applies the taps of the columns, then those of the rows.
 */

/**
 * @typedef {"bicubic" | "bilinear" | "nearest" | "nearest-exact" | "area"} Mode
 *
 * @typedef {object} Options as for torch.nn.functional.interpolate
 * @property {Mode} [mode]
 * @property {boolean} [alignCorners]
 * @property {boolean} [antialias]
 *
 * @typedef {object} Taps
 * @property {number[]} index old cells
 * @property {number[]} weight their weights
 */

/**
 * Whether align_corners and antialias mean something for a mode.
 *
 * @param {Mode} mode
 */
export function isSmooth(mode) {
  return mode === "bilinear" || mode === "bicubic";
}

/**
 * The cubic of bicubic: two pieces that meet at 1 and end at 2; `a` sets the dip below zero.
 *
 * @param {number} x
 * @param {number} a
 */
function cubic(x, a) {
  x = Math.abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/**
 * The distance between reads, in old cells.
 *
 * @param {number} from
 * @param {number} to
 * @param {boolean} alignCorners
 */
function stepSize(from, to, alignCorners) {
  if (alignCorners) return to > 1 ? (from - 1) / (to - 1) : 0;
  return from / to;
}

/**
 * Where new cell i reads an axis of old cells whose centres lie at 0, 1, 2, …, `from` − 1.
 *
 * @param {number} from
 * @param {number} to
 * @param {number} i
 * @param {Options} [options]
 */
export function samplingPoint(from, to, i, { mode = "bicubic", alignCorners = false } = {}) {
  const step = stepSize(from, to, alignCorners && isSmooth(mode));
  if (alignCorners && isSmooth(mode)) return i * step;
  // torch's "nearest" reads the old cell under the new cell's *first corner*, not its centre.
  return (mode === "nearest" ? i : i + 0.5) * step - 0.5;
}

/**
 * The taps of every new cell along one axis.
 *
 * @param {number} from
 * @param {number} to
 * @param {Options} [options]
 * @returns {Taps[]}
 */
export function resizeTaps(from, to, options = {}) {
  const { mode = "bicubic", alignCorners = false, antialias = false } = options;
  const corners = alignCorners && isSmooth(mode);
  const step = stepSize(from, to, corners);
  const clamp = (/** @type {number} */ k) => Math.min(Math.max(k, 0), from - 1);
  return Array.from({ length: to }, (_, i) => {
    if (mode === "nearest" || mode === "nearest-exact") {
      // In float32, as torch: where the product is a whole number but for rounding, it decides.
      const f = Math.fround;
      const at = f(f(mode === "nearest" ? i : i + 0.5) * f(from / to));
      return { index: [clamp(Math.floor(at))], weight: [1] };
    }
    if (mode === "area") {
      const first = Math.floor((i * from) / to);
      const last = Math.ceil(((i + 1) * from) / to);
      return normalizedTaps(first, last, () => 1);
    }
    if (antialias) {
      // A kernel as wide as the step when the grid shrinks; where it leaves the grid it is cut off
      // and the rest is scaled to a sum of 1. For bicubic torch takes another `a` here.
      const stretch = Math.max(step, 1);
      const reach = (mode === "bicubic" ? 2 : 1) * stretch;
      const centre = step * (i + 0.5);
      const first = Math.max(0, Math.trunc(centre - reach + 0.5));
      const last = Math.min(from, Math.trunc(centre + reach + 0.5));
      return normalizedTaps(first, last, (k) => {
        const x = (k - centre + 0.5) / stretch;
        return mode === "bicubic" ? cubic(x, -0.5) : Math.max(0, 1 - Math.abs(x));
      });
    }
    const at = samplingPoint(from, to, i, { mode, alignCorners });
    if (mode === "bilinear") {
      const inside = Math.max(at, 0);
      const low = Math.min(Math.floor(inside), from - 1);
      return mergedTaps([low, clamp(low + 1)], [1 - (inside - low), inside - low]);
    }
    const low = Math.floor(at);
    const around = [low - 1, low, low + 1, low + 2];
    return mergedTaps(around.map(clamp), around.map((k) => cubic(at - k, -0.75)));
  });
}

/**
 * Taps first … last − 1 with weights that are scaled to a sum of 1.
 *
 * @param {number} first
 * @param {number} last
 * @param {(k: number) => number} weigh
 * @returns {Taps}
 */
function normalizedTaps(first, last, weigh) {
  const index = Array.from({ length: last - first }, (_, k) => first + k);
  const weight = index.map(weigh);
  const total = weight.reduce((a, b) => a + b, 0);
  return { index, weight: weight.map((w) => w / total) };
}

/**
 * Add up the weights of taps that fell on one cell, as those beyond the border do.
 *
 * @param {number[]} index
 * @param {number[]} weight
 * @returns {Taps}
 */
function mergedTaps(index, weight) {
  const sums = new Map();
  index.forEach((k, j) => sums.set(k, (sums.get(k) || 0) + weight[j]));
  return { index: [...sums.keys()], weight: [...sums.values()] };
}

/**
 * Resize a table of positions to another grid; its prefix rows are copied.
 *
 * @param {Float32Array} table (prefix + rows · columns) × dim numbers
 * @param {[number, number]} oldGrid rows and columns
 * @param {[number, number]} newGrid
 * @param {Options & { dim: number, prefix?: number }} options
 */
export function resizeTable(table, oldGrid, newGrid, { dim, prefix = 1, ...options }) {
  const [h, w] = oldGrid;
  const [rows, columns] = newGrid;
  const head = prefix * dim;
  const out = new Float32Array(head + rows * columns * dim);
  out.set(table.subarray(0, head));
  const wide = new Float32Array(h * columns * dim); // every old row, resized along its columns
  resizeTaps(w, columns, options).forEach(({ index, weight }, c) => {
    for (let r = 0; r < h; r++) {
      const to = (r * columns + c) * dim;
      for (let t = 0; t < index.length; t++) {
        const from = head + (r * w + index[t]) * dim;
        for (let d = 0; d < dim; d++) wide[to + d] += weight[t] * table[from + d];
      }
    }
  });
  const line = columns * dim;
  resizeTaps(h, rows, options).forEach(({ index, weight }, r) => {
    const to = head + r * line;
    for (let t = 0; t < index.length; t++) {
      const from = index[t] * line;
      for (let d = 0; d < line; d++) out[to + d] += weight[t] * wide[from + d];
    }
  });
  return out;
}
