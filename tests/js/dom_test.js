/** @file What dom.js decides without elements; tests/test_js_lib.py tests the rest in a browser. */

import assert from "node:assert/strict";
import { language, onKeys, schedule, textsIn } from "../../dnnl/explorers/js/lib/dom.js";

/**
 * The language of an explorer that is told one, inside an element that has one, in a page.
 *
 * @param {string} own
 * @param {string | null} around
 * @param {string} page
 */
function spoken(own, around, page) {
  const model = /** @type {any} */ ({ get: () => own });
  const el = /** @type {any} */ ({ closest: () => around === null ? null : { lang: around } });
  /** @type {any} */ (globalThis).document = { documentElement: { lang: page } };
  return language(model, el);
}

Deno.test("the language is the widget's own, else that around it, else the page's", () => {
  assert.equal(spoken("en", "zh", "zh"), "en");
  assert.equal(spoken("zh", "en", "en"), "zh");
  assert.equal(spoken("", "zh-CN", "en"), "zh");
  assert.equal(spoken("", "en-GB", "zh"), "en");
  assert.equal(spoken("", null, "ZH-Hans"), "zh");
  assert.equal(spoken("", null, ""), "en");
  assert.equal(spoken("", "fr", "zh"), "en");
});

Deno.test("texts are in the language, or in the only one there is", () => {
  assert.equal(textsIn({ en: "one", zh: "一" }, "zh"), "一");
  assert.equal(textsIn({ en: "one", zh: "一" }, "en"), "one");
  assert.equal(textsIn({ en: "one" }, "zh"), "one");
  assert.equal(textsIn({ zh: "一" }, "en"), "一");
});

/**
 * Press a key; say whether the page still gets it.
 *
 * @param {EventTarget} target
 * @param {string} key
 * @param {object} [modifiers]
 */
const press = (target, key, modifiers = {}) =>
  target.dispatchEvent(
    Object.assign(new Event("keydown", { cancelable: true }), { key, ...modifiers }),
  );

Deno.test("a handled key is taken, and every other passes", () => {
  const target = new EventTarget();
  /** @type {string[]} */
  const acted = [];
  const stop = onKeys(/** @type {any} */ (target), {
    ArrowUp: () => acted.push("up"),
    End: () => {
      acted.push("end");
      return false;
    },
  });
  assert.equal(press(target, "ArrowUp"), false);
  assert.equal(press(target, "End"), true); // acted, and let it pass
  assert.equal(press(target, "x"), true);
  for (const modifier of ["ctrlKey", "metaKey", "altKey"]) {
    assert.equal(press(target, "ArrowUp", { [modifier]: true }), true);
  }
  assert.equal(press(target, "ArrowUp", { shiftKey: true }), false);
  assert.deepEqual(acted, ["up", "end", "up"]);
  stop();
  assert.equal(press(target, "ArrowUp"), true);
  assert.equal(acted.length, 3);
});

Deno.test("many calls make one, at the next frame, unless cancelled", () => {
  /** @type {Map<number, () => void>} */
  const waiting = new Map();
  let last = 0, calls = 0;
  Object.assign(globalThis, {
    requestAnimationFrame: (/** @type {() => void} */ fn) => {
      waiting.set(++last, fn);
      return last;
    },
    cancelAnimationFrame: (/** @type {number} */ id) => waiting.delete(id),
  });
  const frame = () => {
    const now = [...waiting.values()];
    waiting.clear();
    now.forEach((fn) => fn());
  };
  const later = schedule(() => calls++);
  later();
  later();
  assert.equal(calls, 0);
  frame();
  assert.equal(calls, 1);
  frame();
  assert.equal(calls, 1);
  later();
  frame();
  assert.equal(calls, 2);
  later();
  later.cancel();
  frame();
  assert.equal(calls, 2);
  later();
  frame();
  assert.equal(calls, 3);
});
