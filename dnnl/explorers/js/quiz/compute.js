/** @file Quiz, computed: texts and verdicts. */

/**
 * @typedef {object} Choice
 * @property {string} text
 * @property {string} why the explanation
 * @property {boolean} [right]
 */

/**
 * @typedef {object} Question as `schema.json` describes it
 * @property {string} id
 * @property {string} ask
 * @property {Choice[]} choices
 * @property {string} see the heading of the experiment
 */

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

/**
 * What an answer is; nothing if there is none yet.
 *
 * @param {Choice[]} choices
 * @param {number | undefined} picked the number of the answer
 * @returns {"right" | "wrong" | ""}
 */
export function verdict(choices, picked) {
  if (picked === undefined || !(picked in choices)) return "";
  return choices[picked].right ? "right" : "wrong";
}
