/** @file ShapeFlow, computed: shapes and parameters of the input module, and what does not fit. */

/**
 * @param {number} H the height of the image
 * @param {number} W
 * @param {number} P the side of a patch
 * @param {number} C channels
 * @param {number} D the width of a token
 * @param {number} prefix how many prefix tokens there are
 */
export function shapeFlow(H, W, P, C, D, prefix) {
  const rows = Math.floor(H / P), columns = Math.floor(W / P);
  const N = rows * columns, T = prefix + N;
  const parameters = { patch: (C * P * P + 1) * D, token: prefix * D, position: T * D };
  return {
    rows,
    columns,
    N,
    T,
    fits: H % P === 0 && W % P === 0,
    down: H - rows * P, // rows of pixels that no patch covers
    across: W - columns * P,
    lost: H * W - N * P * P,
    parameters,
    total: parameters.patch + parameters.token + parameters.position,
  };
}

/**
 * The nearest sizes that fit: the next smaller one, unless it is empty, and the next larger one.
 *
 * @param {number} H
 * @param {number} W
 * @param {number} P
 */
export function sizesThatFit(H, W, P) {
  const whole = (
    /** @type {(x: number) => number} */ round,
  ) => [round(H / P) * P, round(W / P) * P];
  const smaller = whole(Math.floor), larger = whole(Math.ceil);
  const sizes = Math.min(...smaller) > 0 ? [smaller, larger] : [larger];
  return [...new Set(sizes.map(([h, w]) => `${h} × ${w}`))];
}
