import assert from "node:assert/strict";
import { bytes, listen, put } from "../../dnnl/explorers/js/lib/model.js";

/** @import { Model } from "../../dnnl/explorers/js/lib/types.d.ts" */

/** A model that notes what is done to it. */
class Noted {
  /** @type {string[]} */
  log = [];
  /** @type {Record<string, unknown>} */
  values = {};
  /** @type {[string, () => void][]} */
  listeners = [];
  /** @type {Model["get"]} */
  get = (name) => this.values[name];
  /** @type {Model["set"]} */
  set = (name, value) => {
    this.log.push(`${name} = ${value}`);
  };
  save_changes = () => {
    this.log.push("saved");
  };
  /** @type {Model["on"]} */
  on = (event, listener) => {
    this.listeners.push([event, listener]);
  };
  /** @type {Model["off"]} */
  off = (event, listener) => {
    this.listeners = this.listeners.filter(([e, l]) => e !== event || l !== listener);
  };
}

Deno.test("put sets every trait, then saves once", () => {
  const model = new Noted();
  put(model, { row: 3, column: 4 });
  assert.deepEqual(model.log, ["row = 3", "column = 4", "saved"]);
});

Deno.test("listen hears the traits it names until it is stopped", () => {
  const model = new Noted(), other = () => {};
  model.on("change:row", other);
  const heard = () => {};
  const stop = listen(model, ["row", "column"], heard);
  assert.deepEqual(model.listeners.slice(1), [["change:row", heard], ["change:column", heard]]);
  stop();
  assert.deepEqual(model.listeners, [["change:row", other]]);
});

Deno.test("bytes are those of the view, not of the buffer behind it", () => {
  const model = new Noted(), buffer = Uint8Array.of(9, 1, 2, 3, 9).buffer;
  model.values = { view: new DataView(buffer, 1, 3), buffer };
  assert.deepEqual(bytes(model, "view"), Uint8Array.of(1, 2, 3));
  assert.deepEqual(bytes(model, "buffer"), Uint8Array.of(9, 1, 2, 3, 9));
});
