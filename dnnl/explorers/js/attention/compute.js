/** @file ClassAttention, computed: the class token's weights, and what is hidden by them. */

/**
 * The class token's weights: the mean over the heads, or one head's, for 1 + N tokens.
 *
 * @param {Float32Array} weights of a layer, (heads, T, T)
 * @param {number} heads
 * @param {number} tokens T
 * @param {number | null} head null: the mean
 */
export function classRow(weights, heads, tokens, head) {
  const row = new Float32Array(tokens);
  for (let i = 0; i < heads; i++) {
    if (head != null && head !== i) continue;
    for (let j = 0; j < tokens; j++) {
      row[j] += weights[i * tokens * tokens + j] / (head == null ? heads : 1);
    }
  }
  return row;
}

/**
 * Which patches are hidden: those with the most or with the least attention.
 *
 * @param {Float32Array} weights of the patches
 * @param {"nothing" | "most" | "least"} kind
 * @param {number} count how many
 */
export function hiddenPatches(weights, kind, count) {
  const mask = new Uint8Array(weights.length);
  if (kind === "nothing") return mask;
  const sign = kind === "most" ? -1 : 1;
  const order = [...weights.keys()].sort((a, b) => sign * (weights[a] - weights[b]));
  for (const i of order.slice(0, count)) mask[i] = 1;
  return mask;
}
