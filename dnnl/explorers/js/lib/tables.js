/**
 * @file Tables of positions: rows that resemble one another. A table is a Float32Array of
 *   rows × dim numbers.
 */

/**
 * The inner product of two rows of a table.
 *
 * @param {Float32Array} table
 * @param {number} dim
 * @param {number} i
 * @param {number} j
 */
export function dotRows(table, dim, i, j) {
  let sum = 0;
  for (let d = 0; d < dim; d++) sum += table[i * dim + d] * table[j * dim + d];
  return sum;
}

/**
 * Divide every row by its length; a row of zeros stays. Inner products are then cosines.
 *
 * @param {Float32Array} table
 * @param {number} dim
 */
export function unitRows(table, dim) {
  const out = Float32Array.from(table);
  for (let i = 0; i < table.length / dim; i++) {
    const length = Math.sqrt(dotRows(table, dim, i, i));
    if (length > 0) { for (let d = i * dim; d < (i + 1) * dim; d++) out[d] /= length; }
  }
  return out;
}

/**
 * The cosine similarity of one row to every row.
 *
 * @param {Float32Array} unit a table of unit rows
 * @param {number} dim
 * @param {number} row
 */
export const cosines = (unit, dim, row) =>
  Float32Array.from({ length: unit.length / dim }, (_, i) => dotRows(unit, dim, row, i));

/**
 * The fixed table of dnnl.models.vit.sincos_pos_embedding, without a row for the class token: the
 * code of the column, then that of the row.
 *
 * @param {number} rows
 * @param {number} columns
 * @param {number} dim
 */
export function sincosTable(rows, columns, dim) {
  const out = new Float32Array(rows * columns * dim), quarter = dim / 4;
  for (let i = 0; i < rows * columns; i++) {
    [i % columns, Math.floor(i / columns)].forEach((place, axis) => {
      for (let k = 0; k < quarter; k++) {
        const at = i * dim + axis * 2 * quarter + k, angle = place * 10000 ** (-k / quarter);
        out[at] = Math.sin(angle);
        out[at + quarter] = Math.cos(angle);
      }
    });
  }
  return out;
}
