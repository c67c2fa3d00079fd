export default {
  name: "A table of positions moves equal tokens apart",
  scale: "The table, times",
  table: "Table",
  tables: { trained: "trained", sincos: "sin-cos", random: "random" },
  patch: "Pasted patch",
  place: (/** @type {number} */ i) => `${i} (${Math.floor(i / 14)}, ${i % 14})`,
  photo: (/** @type {number} */ i) =>
    `Photograph of 14 × 14 patches; patch ${i} (row ${Math.floor(i / 14)}, column ${
      i % 14
    }) is pasted in eight numbered places. Arrow keys choose another patch.`,
  plane: (/** @type {string} */ scale, /** @type {string} */ table) =>
    `The tokens of all patches in a plane, with ${scale} times the ${table} table added; the eight equal patches are numbered.`,
  none: "Without a table the eight equal patches are one token: all distances are 0.",
  /**
   * @param {string} low
   * @param {string} high
   * @param {string} scale
   * @param {string} one
   * @param {string} two
   * @param {string} d
   */
  says: (low, high, scale, one, two, d) =>
    `Eight equal patches, ${low} to ${high} apart. Tokens 1 and 2: ${scale} · |P(${one}) − P(${two})| = ${d}, whatever they show.`,
  caption:
    "Every token of the photograph, drawn as its patch, in the plane that shows most of them. Drag the table to 0: the eight copies fall together, and the photograph becomes a heap, sorted by content alone. Drag it up: every place has its own offset. Paste another patch: all eight move together, and their distances stay. Which table unfolds the photograph?",
};
