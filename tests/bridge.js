/** @file Calls functions of the explorers' modules for tests/javascript.py: a line of JSON each. */

import { createInterface } from "node:readline";
import process from "node:process";

/**
 * Arrays of numbers travel as { type, data: base64 }, in the machine's byte order.
 *
 * @type {Record<string, any>}
 */
const ARRAYS = {
  Float32Array,
  Float64Array,
  Uint8Array,
  Uint8ClampedArray,
  Uint16Array,
  Int8Array,
  Int32Array,
};

/** @param {any} value @returns {any} */
function decode(value) {
  if (Array.isArray(value)) return value.map(decode);
  if (value === null || typeof value !== "object") return value;
  if (value.type in ARRAYS && "data" in value) {
    const bytes = Uint8Array.from(atob(value.data), (c) => c.charCodeAt(0));
    return new ARRAYS[value.type](bytes.buffer);
  }
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, decode(one)]));
}

/** @param {any} value @returns {any} */
function encode(value) {
  if (value === undefined) return null;
  if (typeof value === "number" && !Number.isFinite(value)) return { number: String(value) };
  if (value === null || typeof value !== "object") return value;
  const type = value.constructor?.name;
  if (type in ARRAYS) {
    const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return { type, data: btoa(text) };
  }
  if (Array.isArray(value)) return value.map(encode);
  if (value instanceof Map || value instanceof Set) return encode([...value]);
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, encode(one)]));
}

/** @type {Map<number, any>} objects that a test has made, by number */
const made = new Map();

/** @param {any} request */
async function answer({ module, name, args, make, object }) {
  const home = object == null ? await import(module) : made.get(object);
  if (!(name in home)) throw new Error(`${module ?? "the object"} has no ${name}`);
  const values = decode(args);
  if (make) {
    made.set(made.size, new home[name](...values));
    return made.size - 1;
  }
  return typeof home[name] === "function" ? await home[name](...values) : home[name];
}

for await (const line of createInterface({ input: process.stdin })) {
  let reply;
  try {
    reply = { result: encode(await answer(JSON.parse(line))) };
  } catch (error) {
    reply = { error: String(error) };
  }
  console.log(JSON.stringify(reply));
}
