/** @file TokenGradient: the gradients of a batch add up in the one class token. */

import { toggle } from "../lib/controls.js";
import { color, frame, h, language, onTheme, schedule, statusLine, textsIn } from "../lib/dom.js";
import { canvas, picture, rgb, sheetOf } from "../lib/draw.js";
import { bytes, listen, put } from "../lib/model.js";
import { halfToFloat } from "../lib/numbers.js";
import { batchGradient, diverging, norm, project, reach } from "./compute.js";

/** @import { Texts, View } from "../lib/types.d.ts" */
/** @typedef {Texts<typeof import("./en.js").default>} OwnTexts */

const SIDE = 32, DIM = 64;
/** A heat strip of 64 numbers. */
function strip() {
  const root = h("canvas", { role: "img", class: "dnnl-strip", width: DIM, height: 1 });
  const ctx = /** @type {CanvasRenderingContext2D} */ (root.getContext("2d"));
  const image = new ImageData(DIM, 1);
  const show = (values, top, label) => {
    values.forEach((v, i) => image.data.set([...diverging(v / top), 255], 4 * i));
    ctx.putImageData(image, 0, 0);
    root.setAttribute("aria-label", label);
  };
  return { root, show };
}

function arrow(ctx, [x0, y0], [x1, y1], width) {
  const angle = Math.atan2(y1 - y0, x1 - x0),
    head = Math.min(4 + 3 * width, Math.hypot(x1 - x0, y1 - y0));
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1 - Math.cos(angle) * head * 0.8, y1 - Math.sin(angle) * head * 0.8);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  for (const side of [-0.42, 0.42]) {
    ctx.lineTo(x1 - head * Math.cos(angle + side), y1 - head * Math.sin(angle + side));
  }
  ctx.fill();
}

/**
 * @param {OwnTexts} texts
 * @param {View} view
 */
function render(texts, { model, el }) {
  const t = textsIn(texts, language(model, el));
  const names = model.get("_names"), pixels = bytes(model, "_pixels"), size = SIDE * SIDE * 3;
  const all = halfToFloat(bytes(model, "_gradients")), basis = halfToFloat(bytes(model, "_plane"));
  const gradients = names.map((_, i) => all.slice(i * DIM, (i + 1) * DIM));
  const photographs = names.map((_, i) =>
    rgb(pixels.subarray(i * size, (i + 1) * size), SIDE, SIDE)
  );
  const flat = (g) => project(g, basis);
  const arrows = gradients.map(flat);
  const share = arrows.flat().reduce((s, v) => s + v * v, 0) / all.reduce((s, v) => s + v * v, 0);

  const box = frame(el, { label: t.name, room: model.get("_room") }), says = statusLine();
  box.caption.textContent = t.caption(Math.round(100 * share));
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

  // One row for each photograph: a box to tick, its strip, its length.
  const rows = names.map((name, i) => {
    const thumbnail = sheetOf(photographs[i]);
    thumbnail.className = "dnnl-thumbnail";
    thumbnail.setAttribute("aria-hidden", "true");
    const tick = h("input", { type: "checkbox", "aria-label": t.include(t.names[name]) });
    tick.addEventListener("change", () => {
      const chosen = names.filter((_, j) => rows[j].tick.checked);
      if (chosen.length) return put(model, { images: chosen });
      tick.checked = true;
      says.say(t.one);
    });
    const own = strip(), length = h("output", {}, norm(gradients[i]).toFixed(2));
    const root = h(
      "div",
      { class: "dnnl-flow" },
      h("label", {}, tick, thumbnail, h("span", {}, t.names[name])),
      own.root,
      length,
    );
    return { root, tick, own };
  });
  const total = strip(), totalLength = h("output", {});
  const sigma = h("span", { "aria-hidden": "true" }, "Σ ");
  const totalRow = h(
    "div",
    { class: "dnnl-flow dnnl-total" },
    h("span", {}, sigma, t.total),
    total.root,
    totalLength,
  );
  const copies = h("p", { class: "dnnl-copies", "aria-hidden": "true" });
  const memory = h("p", { class: "dnnl-memory" });

  const plane = canvas(320, 290, "");
  box.stage.append(
    h(
      "div",
      { class: "dnnl-flows" },
      h("fieldset", {}, h("legend", { class: "dnnl-hidden" }, t.images), rows.map((r) => r.root)),
      totalRow,
    ),
    h("div", { class: "dnnl-sum" }, plane.root, copies, memory),
  );
  box.stage.classList.add("dnnl-gradients");
  box.stage.after(says.root);

  // The plane shows every sum that can occur: from all that points left to all that points right.
  const ends = reach(arrows);
  const scale = Math.min(
    ...ends.map(([low, high], axis) => ([plane.width, plane.height][axis] - 40) / (high - low)),
  );
  /** @type {(point: number[]) => [number, number]} */
  const at = ([x, y]) => [
    plane.width / 2 + (x - (ends[0][0] + ends[0][1]) / 2) * scale,
    plane.height / 2 - (y - (ends[1][0] + ends[1][1]) / 2) * scale,
  ];

  const draw = () => {
    const chosen = names.map((_, i) => i).filter((i) => model.get("images").includes(names[i]));
    const b = chosen.length, mean = model.get("reduction") === "mean", how = model.get("spread");
    reduction.set(model.get("reduction"));
    spread.set(how);
    const sum = batchGradient(gradients, chosen, mean ? "mean" : "sum");
    const top = Math.max(...all.map(Math.abs), ...sum.map(Math.abs)), length = norm(sum).toFixed(2);
    rows.forEach(({ root, tick, own }, i) => {
      tick.checked = chosen.includes(i);
      root.classList.toggle("dnnl-off", !tick.checked);
      own.show(gradients[i], top, t.strip(t.names[names[i]], norm(gradients[i]).toFixed(2)));
    });
    total.show(sum, top, t.totalStrip(length));
    totalLength.textContent = length;
    sigma.textContent = mean ? `1/${b} Σ ` : "Σ ";

    copies.replaceChildren(
      ...chosen.map((_, i) =>
        h("span", { class: how === "repeat" || i === 0 ? "dnnl-row" : "dnnl-row dnnl-view" })
      ),
    );
    memory.textContent = t.memory[how](b) + t.same;

    const { ctx } = plane;
    plane.fit();
    plane.name(t.plane(b, length));
    const [ox, oy] = at([0, 0]);
    ctx.strokeStyle = color(box.root, "--dnnl-hair");
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(0, oy);
    ctx.lineTo(plane.width, oy);
    ctx.moveTo(ox, 0);
    ctx.lineTo(ox, plane.height);
    ctx.stroke();
    ctx.strokeStyle = ctx.fillStyle = color(box.root, "--dnnl-patch");
    let tip = [0, 0];
    const thumbnails = [];
    for (const i of chosen) {
      const next = [tip[0] + arrows[i][0], tip[1] + arrows[i][1]];
      arrow(ctx, at(tip), at(next), 2);
      thumbnails.push([i, at([(tip[0] + next[0]) / 2, (tip[1] + next[1]) / 2])]);
      tip = next;
    }
    ctx.strokeStyle = ctx.fillStyle = color(box.root, "--dnnl-class-token");
    const end = flat(sum);
    if (mean && b > 1) {
      ctx.setLineDash([3, 4]);
      ctx.lineWidth = 1.5;
      ctx.beginPath();
      ctx.moveTo(...at(end));
      ctx.lineTo(...at(tip));
      ctx.stroke();
      ctx.setLineDash([]);
    }
    arrow(ctx, [ox, oy], at(end), 4);
    for (const [i, [x, y]] of thumbnails) picture(ctx, photographs[i], x - 9, y - 9, 18, 18);
    says.say(t.says(b, model.get("reduction"), length));
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
}

/** @param {OwnTexts} texts */
export default (texts) => ({ render: (/** @type {View} */ view) => render(texts, view) });
