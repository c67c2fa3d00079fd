/** @file Labelled controls: slider, list, radio group, button. */

import { h, uniqueId } from "./dom.js";

/**
 * @param {object} options
 * @param {string} options.label
 * @param {number} options.min
 * @param {number} options.max
 * @param {number} [options.step]
 * @param {number} options.value
 * @param {(value: number) => void} [options.oninput]
 * @param {(value: number) => string} [options.format] what is written beside the slider
 */
export function slider({ label, min, max, step = 1, value, oninput, format = String }) {
  const id = uniqueId();
  const input = h("input", { type: "range", id, min, max, step });
  const output = h("output", { for: id });
  const show = () => {
    output.textContent = format(input.valueAsNumber);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  const set = (/** @type {number} */ to) => {
    input.value = String(to);
    show();
  };
  input.addEventListener("input", () => {
    show();
    oninput?.(input.valueAsNumber);
  });
  set(value);
  const root = h("div", { class: "dnnl-slider" }, h("label", { for: id }, label), output, input);
  return { root, input, output, set };
}

/**
 * A list to choose from.
 *
 * @template Value
 * @param {object} options
 * @param {string} options.label
 * @param {[Value, string][]} options.options values and their texts
 * @param {Value} options.value
 * @param {(value: Value) => void} [options.onchange]
 */
export function select({ label, options, value, onchange }) {
  const id = uniqueId();
  const input = h("select", { id }, options.map(([, text], i) => h("option", { value: i }, text)));
  const set = (/** @type {Value} */ to) => {
    input.selectedIndex = options.findIndex(([one]) => one === to);
  };
  input.addEventListener("change", () => onchange?.(options[input.selectedIndex][0]));
  set(value);
  return {
    root: h("div", { class: "dnnl-select" }, h("label", { for: id }, label), input),
    input,
    set,
  };
}

/**
 * One of a few, all in sight: a radio group drawn as joined buttons.
 *
 * @template Value
 * @param {object} options
 * @param {string} options.label
 * @param {[Value, string][]} options.options values and their texts
 * @param {Value} options.value
 * @param {(value: Value) => void} [options.onchange]
 */
export function toggle({ label, options, value, onchange }) {
  const name = uniqueId();
  const inputs = options.map(([one]) =>
    h("input", { type: "radio", name, onchange: () => onchange?.(one) })
  );
  const set = (/** @type {Value} */ to) =>
    inputs.forEach((input, i) => input.checked = options[i][0] === to);
  set(value);
  const segments = options.map(([, text], i) => h("label", {}, inputs[i], h("span", {}, text)));
  const root = h("fieldset", { class: "dnnl-toggle" }, [
    h("legend", {}, label),
    h("div", { class: "dnnl-segments" }, segments),
  ]);
  return { root, inputs, set };
}

/**
 * @param {string} label
 * @param {() => void} onclick
 * @param {Record<string, any>} [props] more attributes
 */
export const button = (label, onclick, props = {}) =>
  h("button", { type: "button", class: "dnnl-button", onclick, ...props }, label);
