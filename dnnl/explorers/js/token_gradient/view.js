/** @file TokenGradient: the gradients of a batch add up in the one class token. */

import { toggle } from "../lib/controls.js";
import { color, frame, h, language, onTheme, schedule, statusLine, textsIn } from "../lib/dom.js";
import { canvas, rgb, sheetOf } from "../lib/draw.js";
import { bytes, listen, put } from "../lib/model.js";
import { halfToFloat } from "../lib/numbers.js";
import {
  arrowhead,
  batchGradient,
  chain,
  diverging,
  kept,
  norm,
  peak,
  project,
  reach,
  spot,
} from "./compute.js";

/** @import { Texts, View } from "../lib/types.d.ts" */
/** @import { Point } from "./compute.js" */
/** @typedef {typeof import("./en.js").default} Text */
/** @typedef {keyof Text["names"]} Name */

const SIDE = 32, DIM = 64, ROOM = 20;

/** A heat strip of 64 numbers. */
function strip() {
  const root = h("canvas", { role: "img", class: "dnnl-strip", width: DIM, height: 1 });
  const ctx = /** @type {CanvasRenderingContext2D} */ (root.getContext("2d"));
  const image = new ImageData(DIM, 1);
  image.data.fill(255);
  /**
   * @param {Float32Array} values
   * @param {number} top the number that has the last colour
   * @param {string} label
   */
  const show = (values, top, label) => {
    values.forEach((value, i) => image.data.set(diverging(value / top), 4 * i));
    ctx.putImageData(image, 0, 0);
    root.setAttribute("aria-label", label);
  };
  return { root, show };
}

/**
 * A photograph of the batch: a box to tick, its gradient, and how long that is.
 *
 * @param {string} name
 * @param {string} label of the box
 * @param {HTMLCanvasElement} thumbnail
 * @param {string} length
 * @param {() => void} onchange
 */
function flow(name, label, thumbnail, length, onchange) {
  thumbnail.className = "dnnl-thumbnail";
  thumbnail.setAttribute("aria-hidden", "true");
  const tick = h("input", { type: "checkbox", "aria-label": label, onchange });
  const { root: colors, show } = strip();
  const named = h("label", {}, tick, thumbnail, h("span", {}, name));
  const root = h("div", { class: "dnnl-flow" }, named, colors, h("output", {}, length));
  const set = (/** @type {boolean} */ chosen) => {
    tick.checked = chosen;
    root.classList.toggle("dnnl-off", !chosen);
  };
  return { root, tick, show, set };
}

/**
 * What the token receives.
 *
 * @param {Text} t
 */
function totalFlow(t) {
  const { root: colors, show } = strip(), output = h("output", {});
  const sign = h("span", { "aria-hidden": "true" });
  const name = h("span", {}, sign, t.total);
  const root = h("div", { class: "dnnl-flow dnnl-total" }, name, colors, output);
  /**
   * @param {Float32Array} sum
   * @param {number} top
   * @param {string} prefix
   */
  const set = (sum, top, prefix) => {
    const length = norm(sum).toFixed(2);
    show(sum, top, t.totalStrip(length));
    output.textContent = length;
    sign.textContent = prefix;
  };
  return { root, set };
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {Point} from
 * @param {Point} to
 * @param {number} width
 */
function drawArrow(ctx, from, to, width) {
  const { neck, wings } = arrowhead(from, to, width);
  drawLine(ctx, from, neck, width);
  ctx.beginPath();
  for (const point of [to, ...wings]) ctx.lineTo(...point);
  ctx.fill();
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {Point} from
 * @param {Point} to
 * @param {number} width
 */
function drawLine(ctx, from, to, width) {
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(...from);
  ctx.lineTo(...to);
  ctx.stroke();
}

/**
 * The addition as arrows in a plane, which shows every sum that can occur.
 *
 * @param {Point[]} arrows
 * @param {HTMLCanvasElement[]} thumbnails
 */
function plane(arrows, thumbnails) {
  const view = canvas(320, 290, ""), { ctx, width, height } = view, ends = reach(arrows);
  const at = (/** @type {Point} */ point) => spot(point, ends, width, height, ROOM);
  /**
   * @param {number[]} chosen the images of the batch
   * @param {Point} sum the token's gradient
   */
  const draw = (chosen, sum) => {
    const tips = chain(chosen.map((i) => arrows[i])).map(at), end = at(sum);
    const [origin, last] = [tips[0], tips[tips.length - 1]];
    view.fit();
    ctx.strokeStyle = color(view.root, "--dnnl-hair");
    drawLine(ctx, [0, origin[1]], [width, origin[1]], 1);
    drawLine(ctx, [origin[0], 0], [origin[0], height], 1);
    ctx.strokeStyle = ctx.fillStyle = color(view.root, "--dnnl-patch");
    chosen.forEach((_, k) => drawArrow(ctx, tips[k], tips[k + 1], 2));
    ctx.strokeStyle = ctx.fillStyle = color(view.root, "--dnnl-class-token");
    ctx.setLineDash([3, 4]); // from the mean to the sum; nothing if they are the same
    drawLine(ctx, end, last, 1.5);
    ctx.setLineDash([]);
    drawArrow(ctx, origin, end, 4);
    ctx.imageSmoothingEnabled = false;
    chosen.forEach((i, k) => {
      const [x, y] = [0, 1].map((axis) => (tips[k][axis] + tips[k + 1][axis]) / 2);
      ctx.drawImage(thumbnails[i], x - 9, y - 9, 18, 18);
    });
  };
  return { root: view.root, name: view.name, draw };
}

/** The rows that the copies of the token take in memory, and those that are only views. */
function memoryRows() {
  const root = h("p", { class: "dnnl-copies", "aria-hidden": "true" });
  const set = (/** @type {number} */ copies, /** @type {boolean} */ real) =>
    root.replaceChildren(
      ...Array.from({ length: copies }, (_, i) =>
        h("span", { class: real || i === 0 ? "dnnl-row" : "dnnl-row dnnl-view" })),
    );
  return { root, set };
}

/** @param {Texts<Text>} texts */
export default (texts) => ({
  /** @param {View} view */
  render({ model, el }) {
    const t = textsIn(texts, language(model, el));
    /** @type {Name[]} */
    const names = model.get("_names");
    const all = halfToFloat(bytes(model, "_gradients"));
    const basis = halfToFloat(bytes(model, "_plane"));
    const pixels = bytes(model, "_pixels"), size = SIDE * SIDE * 3;
    const gradients = names.map((_, i) => all.subarray(i * DIM, (i + 1) * DIM));
    const lengths = gradients.map((v) => norm(v).toFixed(2));
    const arrows = gradients.map((v) => project(v, basis));
    const thumbnails = names.map((_, i) =>
      sheetOf(rgb(pixels.subarray(i * size, (i + 1) * size), SIDE, SIDE))
    );

    const box = frame(el, { label: t.name, room: model.get("_room") }), says = statusLine();
    box.caption.textContent = t.caption(Math.round(100 * kept(arrows, gradients)));
    const reduction = toggle({
      label: t.loss,
      options: [["sum", t.sum], ["mean", t.mean]],
      value: model.get("reduction"),
      onchange: (v) => put(model, { reduction: v }),
    });
    const spread = toggle({
      label: t.copies,
      options: [["expand", "expand"], ["repeat", "repeat"]],
      value: model.get("spread"),
      onchange: (v) => put(model, { spread: v }),
    });
    box.controls.append(reduction.root, spread.root);

    const choose = (/** @type {number} */ changed) => {
      const images = names.filter((_, i) => flows[i].tick.checked);
      if (images.length) return put(model, { images });
      flows[changed].tick.checked = true;
      says.say(t.one);
    };
    const flows = names.map((name, i) => {
      const [own, label] = [t.names[name], t.include(t.names[name])];
      return flow(own, label, thumbnails[i], lengths[i], () => choose(i));
    });
    const total = totalFlow(t), sum = plane(arrows, thumbnails), copies = memoryRows();
    const memory = h("p", { class: "dnnl-memory" });
    const legend = h("legend", { class: "dnnl-hidden" }, t.images);
    const images = h("fieldset", {}, legend, flows.map(({ root }) => root));
    box.stage.append(
      h("div", { class: "dnnl-flows" }, images, total.root),
      h("div", { class: "dnnl-sum" }, sum.root, copies.root, memory),
    );
    box.stage.classList.add("dnnl-gradients");
    box.stage.after(says.root);

    const draw = () => {
      /** @type {Name[]} */
      const batch = model.get("images");
      const how = model.get("reduction");
      /** @type {keyof Text["memory"]} */
      const by = model.get("spread");
      const chosen = names.flatMap((name, i) => batch.includes(name) ? [i] : []);
      const received = batchGradient(gradients, chosen, how), length = norm(received).toFixed(2);
      const top = peak([...gradients, received]);
      reduction.set(how);
      spread.set(by);
      flows.forEach(({ set, show }, i) => {
        set(chosen.includes(i));
        show(gradients[i], top, t.strip(t.names[names[i]], lengths[i]));
      });
      total.set(received, top, how === "mean" ? `1/${chosen.length} Σ ` : "Σ ");
      copies.set(chosen.length, by === "repeat");
      memory.textContent = t.memory[by](chosen.length) + t.same;
      sum.name(t.plane(chosen.length, length));
      sum.draw(chosen, project(received, basis));
      says.say(t.says(chosen.length, how, length));
    };
    const redraw = schedule(draw);
    redraw();
    const stops = [
      listen(model, ["images", "reduction", "spread"], redraw),
      onTheme(redraw),
      redraw.cancel,
      says.stop,
    ];
    return () => {
      stops.forEach((stop) => stop());
      box.root.remove();
    };
  },
});
