/** @file Offset, computed: where tokens lie in a plane, and how far equal ones are apart. */

/**
 * The smallest and the largest distance between rows, and that of the first two.
 *
 * @param {Float32Array} rows count × dim numbers
 * @param {number} dim
 */
export function distances(rows, dim) {
  const row = (/** @type {number} */ i) => rows.subarray(i * dim, (i + 1) * dim);
  const all = [];
  for (let i = 0; i < rows.length / dim; i++) {
    for (let j = i + 1; j < rows.length / dim; j++) {
      all.push(Math.hypot(...row(i).map((value, d) => value - row(j)[d])));
    }
  }
  return { smallest: Math.min(...all), largest: Math.max(...all), first: all[0] };
}

/**
 * Where a token lies in the plane: its content plus `scale` times the row of its position.
 *
 * @param {Float32Array} tokens N × 2 numbers, the contents in the plane
 * @param {Float32Array} offsets N × 2 numbers, the rows of the table in the plane
 * @param {number} content the patch that the token shows
 * @param {number} position where it is
 * @param {number} scale
 * @returns {[number, number]}
 */
export function point(tokens, offsets, content, position, scale) {
  return [
    tokens[2 * content] + scale * offsets[2 * position],
    tokens[2 * content + 1] + scale * offsets[2 * position + 1],
  ];
}

/**
 * The box of the plane that holds all tokens at every scale up to `most`.
 *
 * @param {Float32Array} tokens
 * @param {Float32Array} offsets
 * @param {number} most
 * @returns {[[number, number], [number, number]]} smallest and largest, of x and of y
 */
export function extent(tokens, offsets, most) {
  // A token moves along a line, so its two ends suffice.
  const ends = [0, most].flatMap((scale) =>
    Array.from({ length: tokens.length / 2 }, (_, i) => point(tokens, offsets, i, i, scale))
  );
  const range = (/** @type {0 | 1} */ axis) => {
    const all = ends.map((end) => end[axis]);
    return /** @type {[number, number]} */ ([Math.min(...all), Math.max(...all)]);
  };
  return [range(0), range(1)];
}
