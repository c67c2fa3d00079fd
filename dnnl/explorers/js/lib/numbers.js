/** @file Numbers: how they arrive from Python, and how they are written for the reader. */

/**
 * A number with a true minus sign: decimal(-0.5) is "−0.50".
 *
 * @param {number} value
 */
export const decimal = (value, digits = 2) => value.toFixed(digits).replace("-", "−");

/**
 * @param {number} value
 * @param {number} low
 * @param {number} high
 */
export const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/**
 * Little-endian float16 to float32.
 *
 * @param {Uint8Array} data
 */
export function halfToFloat(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const out = new Float32Array(view.byteLength >> 1);
  for (let i = 0; i < out.length; i++) {
    const bits = view.getUint16(2 * i, true);
    const exponent = (bits >> 10) & 31, fraction = bits & 1023;
    let size = (1 + fraction / 1024) * 2 ** (exponent - 15);
    if (exponent === 0) size = fraction * 2 ** -24;
    if (exponent === 31) size = fraction ? NaN : Infinity;
    out[i] = bits & 32768 ? -size : size;
  }
  return out;
}

// matplotlib's viridis at 0, 1/24, …, 1
const VIRIDIS = (
  "440154 471163 481f71 472d7b 443a83 404688 3b528b 355d8d 31688e 2c728e 287c8e 24868e 21908c " +
  "1f9a8a 20a486 28ae80 35b779 47c06f 5dc963 75d054 8fd744 abdc32 c7e020 e3e418 fde725"
)
  .split(" ")
  .map((code) => [0, 2, 4].map((i) => parseInt(code.slice(i, i + 2), 16)));

/**
 * The colour [r, g, b] of t in [0, 1].
 *
 * @param {number} t
 */
export function viridis(t) {
  const x = clamp(t || 0, 0, 1) * (VIRIDIS.length - 1);
  const i = Math.min(VIRIDIS.length - 2, Math.floor(x));
  return [0, 1, 2].map((c) =>
    Math.round(VIRIDIS[i][c] + (x - i) * (VIRIDIS[i + 1][c] - VIRIDIS[i][c]))
  );
}
