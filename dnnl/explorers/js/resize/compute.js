/** @file Resize, computed: colours of a table, the crop of a grid, and patches as pixels. */

/** @typedef {[rows: number, columns: number]} Grid */

/**
 * What dnnl.explorers.resize.principal_colours found: a mean, three axes, and the ranges along them.
 *
 * @typedef {object} Basis
 * @property {Float32Array} mean
 * @property {Float32Array} axes 3 × dim
 * @property {Float32Array} low
 * @property {Float32Array} high
 */

/**
 * @param {Float32Array} values mean, axes, low, high, one after the other
 * @param {number} dim
 * @returns {Basis}
 */
export const basisOf = (values, dim) => ({
  mean: values.subarray(0, dim),
  axes: values.subarray(dim, 4 * dim),
  low: values.subarray(4 * dim, 4 * dim + 3),
  high: values.subarray(4 * dim + 3),
});

/**
 * The colours of a table's patch rows as pixels, rows · columns · 4.
 *
 * @param {Float32Array} table (1 + rows · columns) × dim, the class token's row first
 * @param {Basis} basis
 */
export function tableColours(table, { mean, axes, low, high }) {
  const dim = mean.length, patches = table.length / dim - 1;
  const out = new Uint8ClampedArray(4 * patches);
  for (let i = 0; i < patches; i++) {
    for (let k = 0; k < 3; k++) {
      let place = 0;
      for (let d = 0; d < dim; d++) {
        place += (table[(i + 1) * dim + d] - mean[d]) * axes[k * dim + d];
      }
      out[4 * i + k] = Math.round((255 * (place - low[k])) / (high[k] - low[k]));
    }
    out[4 * i + 3] = 255;
  }
  return out;
}

/**
 * The middle of a photograph that has a grid's size, and which of its patches are hidden: the 60 %
 * that come first in a fixed order.
 *
 * @param {Uint8Array} region (most · p) · (most · p) · 3 bytes
 * @param {Uint16Array} ranks of the most × most patches in the order
 * @param {number} most the largest grid
 * @param {number} p the side of a patch
 * @param {Grid} grid
 * @returns image: (3, height, width) in [0, 1]; mask: not 0 where a patch is hidden
 */
export function crop(region, ranks, most, p, [rows, columns]) {
  const top = (most - rows) >> 1, left = (most - columns) >> 1;
  const height = rows * p, width = columns * p, edge = most * p;
  const image = new Float32Array(3 * height * width);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = 3 * ((y + top * p) * edge + x + left * p);
      for (let c = 0; c < 3; c++) image[(c * height + y) * width + x] = region[at + c] / 255;
    }
  }
  const own = Array.from(
    { length: rows * columns },
    (_, i) => ranks[(top + Math.floor(i / columns)) * most + left + (i % columns)],
  );
  const hidden = Math.floor((6 * own.length + 5) / 10);
  const limit = [...own].sort((a, b) => a - b)[hidden - 1];
  return { image, height, width, mask: Uint8Array.from(own, (rank) => (rank <= limit ? 1 : 0)) };
}

/**
 * Standardised patches (N, 3 · p · p) as pixels; those that `hide` marks are grey.
 *
 * @param {Float32Array} patches
 * @param {Grid} grid
 * @param {{ p: number, mean: number, std: number }} sizes
 * @param {Uint8Array | null} [hide]
 */
export function pixelsOf(patches, [rows, columns], { p, mean, std }, hide = null) {
  const width = columns * p, out = new Uint8ClampedArray(4 * width * rows * p);
  for (let i = 0; i < rows * columns; i++) {
    const top = Math.floor(i / columns) * p, left = (i % columns) * p;
    for (let c = 0; c < 3; c++) {
      for (let y = 0; y < p; y++) {
        for (let x = 0; x < p; x++) {
          const value = hide?.[i] ? 0.5 : patches[((i * 3 + c) * p + y) * p + x] * std + mean;
          out[4 * ((top + y) * width + left + x) + c] = Math.round(255 * value);
        }
      }
    }
  }
  for (let i = 3; i < out.length; i += 4) out[i] = 255;
  return out;
}
