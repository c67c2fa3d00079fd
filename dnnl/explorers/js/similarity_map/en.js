export default {
  name: "Similarity of positions",
  table: "Table",
  tables: { trained: "trained", sincos: "sin-cos", random: "random" },
  scale: "Colours",
  scales: { full: "−1 to 1", own: "smallest to 1" },
  row: "row",
  column: "column",
  classRow: "class token's row",
  one: "One row with all others",
  all: "Every row with all others",
  patch: (/** @type {number} */ t, /** @type {number} */ r, /** @type {number} */ c) =>
    `patch (${r}, ${c}), row ${t} of the table`,
  classToken: "the class token's row, row 0 of the table",
  /**
   * @param {string} what
   * @param {string} near
   * @param {string} rest
   * @param {string} most
   * @param {string} value
   * @param {string} cls
   */
  says: (what, near, rest, most, value, cls) =>
    `Picked: ${what}. Cosine with its neighbours ${near} on average, ` +
    `with all other patches ${rest}; most like patch (${most}): ${value}. With the class token's row: ${cls}.`,
  saysClass: (/** @type {string} */ low, /** @type {string} */ high, /** @type {string} */ most) =>
    "Picked: the class token's row, row 0 of the table. " +
    `Cosine with the patches: from ${low} to ${high}, most like patch (${most}).`,
  saysZero:
    "Picked: the class token's row, row 0 of the table. In a sin-cos table it is all zeros: " +
    "it has no direction, and its similarity to every row is set to 0.",
  under: (/** @type {number} */ r, /** @type {number} */ c, /** @type {string} */ v) =>
    `under the pointer: patch (${r}, ${c}), ${v}`,
  map: (/** @type {string} */ what) =>
    `Map of 14 by 14 patches, coloured by similarity to ${what}. Arrow keys move the picked patch.`,
  overview:
    "All maps at once: at the place of each patch, its own map. The picked one is outlined.",
  bar: (/** @type {string} */ low) => `Colours run from ${low} (dark blue) to 1 (yellow).`,
  caption:
    "Pick a patch: press on a map, use the sliders, or focus the large map and use the arrow keys. " +
    "Compare the tables: in which is a patch like its neighbours in every direction, " +
    "in which only along its own row and column, and in which like nothing but itself? " +
    "The class token's row stands apart: it belongs to no place on the grid.",
};
