/** @file The texts of both languages have the same keys, and their functions the same parameters. */

import assert from "node:assert/strict";

const MODULES = new URL("../../dnnl/explorers/js/", import.meta.url);

/**
 * Every text by its path: a string's is "text", a function's the number of its parameters.
 *
 * @param {any} value
 * @param {string} [path]
 * @returns {[string, "text" | number][]}
 */
function shape(value, path = "") {
  if (path.endsWith(".live.names")) return []; // photographs whose names are English already
  if (typeof value === "string") return [[path, "text"]];
  if (typeof value === "function") return [[path, value.length]];
  return Object.entries(value).sort().flatMap(([key, one]) => shape(one, `${path}.${key}`));
}

const folders = [...Deno.readDirSync(MODULES)].filter(({ isDirectory }) => isDirectory);
const names = folders.map(({ name }) => name).filter((name) => name !== "lib").sort();

Deno.test("there are explorers", () => assert.ok(names.includes("offset") && names.length > 5));

for (const name of names) {
  Deno.test(`${name}: both languages have the same texts`, async () => {
    const [en, zh] = await Promise.all(
      ["en", "zh"].map(async (lang) => (await import(`${MODULES}${name}/${lang}.js`)).default),
    );
    const expected = shape(name === "live" ? { live: en } : en);
    assert.deepEqual(shape(name === "live" ? { live: zh } : zh), expected);
    assert.ok(expected.length > 0);
  });
}
