/** @file The widget's traits. */

/** @import { Model, Stop } from "./types.d.ts" */

/**
 * Listen to several traits.
 *
 * @param {Model} model
 * @param {string[]} names
 * @param {() => void} fn
 * @returns {Stop}
 */
export function listen(model, names, fn) {
  for (const name of names) model.on(`change:${name}`, fn);
  return () => {
    for (const name of names) model.off(`change:${name}`, fn);
  };
}

/**
 * Set traits as if Python had, and tell Python.
 *
 * @param {Model} model
 * @param {Record<string, unknown>} changes
 */
export function put(model, changes) {
  for (const [name, value] of Object.entries(changes)) model.set(name, value);
  model.save_changes();
}

/**
 * The bytes of a trait, which arrive as a DataView.
 *
 * @param {Model} model
 * @param {string} name
 */
export function bytes(model, name) {
  const data = model.get(name);
  if (!ArrayBuffer.isView(data)) return new Uint8Array(data);
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}
