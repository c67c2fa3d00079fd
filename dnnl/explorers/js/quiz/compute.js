/** @file Quiz, computed: texts. */

/**
 * A heading as a reader compares it: no permalink sign, one kind of quotes and spaces.
 *
 * @param {string} text
 */
export const plain = (text) =>
  text.replace(/[#¶]\s*$/, "").replace(/[“”„]/g, '"').replace(/[‘’]/g, "'").replace(/\s+/g, " ")
    .trim();

/**
 * The parts of a text; every second one is code, which stood between backticks.
 *
 * @param {string} text
 */
export const parts = (text) => text.split("`").map((part, i) => ({ part, code: i % 2 === 1 }));
