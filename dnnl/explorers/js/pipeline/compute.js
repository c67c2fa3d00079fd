/** @file Pipeline, computed: the steps of the input module, and what each makes of the sequence. */

/**
 * @typedef {object} Matrix
 * @property {Float32Array} values row by row
 * @property {number} cols
 * @property {number} rows
 */

/** @typedef {"class_first" | "dropout_first" | "positions_first" | "sliced"} Order */

/**
 * The names of the steps, in an order.
 *
 * @param {Order} order
 */
export function sequenceOf(order) {
  let last = ["positions", "class_token", "dropout"];
  if (order === "class_first") last = ["class_token", "positions", "dropout"];
  if (order === "dropout_first") last = ["class_token", "dropout", "positions"];
  return ["image", "patches", "tokens", ...last];
}

/**
 * @param {Float32Array} values
 * @param {number} cols
 * @returns {Matrix}
 */
export const matrix = (values, cols) => ({ values, cols, rows: values.length / cols });

/**
 * The rows `from` to `to` − 1 of a matrix.
 *
 * @param {Matrix} m
 * @param {number} from
 * @param {number} to
 */
const rowsOf = (m, from, to) => matrix(m.values.subarray(from * m.cols, to * m.cols), m.cols);

/**
 * @param {Matrix} a
 * @param {Matrix} b
 */
const added = (a, b) => matrix(a.values.map((v, i) => v + b.values[i]), a.cols);

/**
 * The rows of one matrix above those of another.
 *
 * @param {Matrix} a
 * @param {Matrix} b
 */
function stacked(a, b) {
  const values = new Float32Array(a.values.length + b.values.length);
  values.set(a.values);
  values.set(b.values, a.values.length);
  return matrix(values, a.cols);
}

/**
 * The image, standardised and cut: N rows of C · P · P numbers, channel by channel.
 *
 * @param {ArrayLike<number>} pixels H · W · 3 bytes
 * @param {{ H: number, W: number, P: number }} sizes
 */
export function patchesOf(pixels, { H, W, P }) {
  const cols = W / P, values = new Float32Array(3 * H * W);
  let k = 0;
  for (let i = 0; i < (H / P) * cols; i++) {
    const top = Math.floor(i / cols) * P, left = (i % cols) * P;
    for (let c = 0; c < 3; c++) {
      for (let y = top; y < top + P; y++) {
        for (let x = left; x < left + P; x++) {
          values[k++] = (pixels[3 * (y * W + x) + c] / 255 - 0.5) / 0.25;
        }
      }
    }
  }
  return matrix(values, 3 * P * P);
}

/**
 * @typedef {object} Parts
 * @property {Matrix} patches
 * @property {Matrix} tokens
 * @property {Matrix} token0 the class token
 * @property {Matrix} table the positions, the class token's row first
 * @property {Matrix} kept what dropout keeps, 0 or 1
 * @property {number} p the probability of dropout
 */

/**
 * The matrix after each step, and what the step used, in one order of the steps.
 *
 * @param {Parts} parts
 * @param {Order} order
 */
export function run({ patches, tokens, token0, table, kept, p }, order) {
  /** @type {Record<string, { after: Matrix, used?: Matrix }>} */
  const steps = { patches: { after: patches }, tokens: { after: tokens } };
  const N = tokens.rows;
  let x = tokens;
  for (const name of sequenceOf(order).slice(3)) {
    let used;
    if (name === "class_token") {
      // Before the class token is there, its position can only be added to it.
      used = order === "positions_first" ? added(token0, rowsOf(table, 0, 1)) : token0;
      x = stacked(used, x);
    } else if (name === "positions") {
      used = rowsOf(table, 1, N + 1);
      if (order === "sliced") used = rowsOf(table, 0, N);
      if (x.rows > N) used = table;
      x = added(x, used);
    } else {
      used = kept;
      x = matrix(x.values.map((v, i) => (kept.values[i] ? v / (1 - p) : 0)), x.cols);
    }
    steps[name] = { after: x, used };
  }
  return { steps, end: x };
}

/**
 * In how many rows two matrices differ, and by how much at most.
 *
 * @param {Matrix} a
 * @param {Matrix} b
 */
export function difference(a, b) {
  const rows = new Set();
  let most = 0;
  a.values.forEach((value, k) => {
    const gap = Math.abs(value - b.values[k]);
    if (gap > 0) rows.add(Math.floor(k / a.cols));
    most = Math.max(most, gap);
  });
  return { rows: rows.size, most };
}
