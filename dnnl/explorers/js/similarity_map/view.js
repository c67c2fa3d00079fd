/** @file How alike are two positions? The cosine similarity of one row of a table with all the others. */

import { button, slider, toggle } from "../lib/controls.js";
import { color, frame, h, language, onTheme, schedule, statusLine, textsIn } from "../lib/dom.js";
import { canvas, heatMap, heatSheet } from "../lib/draw.js";
import { gridPad } from "../lib/grid_pad.js";
import { bytes, listen, put } from "../lib/model.js";
import { decimal, halfToFloat } from "../lib/numbers.js";
import { panel, panels } from "../lib/panels.js";
import { cosines, sincosTable, unitRows } from "../lib/tables.js";
import { mosaic, mostAlike, nearAndFar, place, safe, smallest } from "./compute.js";

/** @import { Canvas } from "../lib/draw.js" */
/** @import { Model, Texts, View } from "../lib/types.d.ts" */
/** @import { Table } from "./compute.js" */
/** @typedef {typeof import("./en.js").default} Text */

const SIDE = 336;

/**
 * All similarities in each table; those of a table are computed when they are first asked for.
 *
 * @param {Model} model
 */
function similarities(model) {
  /** @type {[number, number]} */
  const [rows, columns] = model.get("_grid_size");
  /** @type {number} */
  const dim = model.get("_embed_dim");
  const tables = {
    trained: () => halfToFloat(bytes(model, "_trained")),
    random: () => halfToFloat(bytes(model, "_random")),
    sincos: () => {
      const table = new Float32Array((rows * columns + 1) * dim);
      table.set(sincosTable(rows, columns, dim), dim);
      return table;
    },
  };
  const compute = (/** @type {Table} */ name) => {
    const unit = unitRows(tables[name](), dim);
    const maps = Array.from({ length: rows * columns + 1 }, (_, i) => cosines(unit, dim, i));
    return { maps, low: smallest(maps), every: mosaic(maps, rows, columns) };
  };
  /** @type {Partial<Record<Table, ReturnType<typeof compute>>>} */
  const computed = {};
  return (/** @type {Table} */ name) => computed[name] ??= compute(name);
}

/**
 * Part the maps of an overview.
 *
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} rows
 * @param {number} columns
 * @param {string} style
 */
function drawLines(ctx, rows, columns, style) {
  ctx.strokeStyle = style;
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let i = 1; i < columns; i++) {
    ctx.moveTo((i * SIDE) / columns, 0);
    ctx.lineTo((i * SIDE) / columns, SIDE);
  }
  for (let i = 1; i < rows; i++) {
    ctx.moveTo(0, (i * SIDE) / rows);
    ctx.lineTo(SIDE, (i * SIDE) / rows);
  }
  ctx.stroke();
}

const RAMP = Float32Array.from({ length: 256 }, (_, i) => i);

/**
 * The colours from `low` to 1, with their numbers.
 *
 * @param {Canvas} bar
 * @param {number} low
 * @param {string} ink
 */
function drawBar({ ctx, fit }, low, ink) {
  fit();
  heatMap(ctx, RAMP, 1, RAMP.length, { y: 8, w: SIDE, h: 9 });
  ctx.fillStyle = ink;
  ctx.font = "13px system-ui, sans-serif";
  ctx.textBaseline = "top";
  const write = (/** @type {CanvasTextAlign} */ align, /** @type {number} */ value) => {
    ctx.textAlign = align;
    const x = ((value - low) / (1 - low)) * SIDE;
    ctx.fillText(decimal(value, Number.isInteger(value) ? 0 : 2), x, 20);
  };
  write("left", low);
  write("center", (low + 1) / 2);
  write("right", 1);
}

/**
 * What the map says in numbers.
 *
 * @param {Text} t
 * @param {Float32Array} row the picked row's similarity to every row
 * @param {number} token
 * @param {number} columns
 */
function sentence(t, row, token, columns) {
  const patches = row.subarray(1), most = mostAlike(patches, token);
  const at = place(most + 1, columns).join(", ");
  if (token) {
    const { near, far } = nearAndFar(patches, token, columns);
    const what = t.patch(token, ...place(token, columns));
    const numbers = [near, far, patches[most], row[0]].map((value) => decimal(value));
    return t.says(what, numbers[0], numbers[1], at, numbers[2], numbers[3]);
  }
  if (patches.every((value) => value === 0)) return t.saysZero;
  return t.saysClass(decimal(Math.min(...patches)), decimal(Math.max(...patches)), at);
}

/** @param {Texts<Text>} texts */
export default (texts) => ({
  /** @param {View} view */
  render({ model, el }) {
    const t = textsIn(texts, language(model, el)), of = similarities(model);
    /** @type {[number, number]} */
    const [rows, columns] = model.get("_grid_size");
    const state = () =>
      safe(model.get("table"), model.get("token"), model.get("scale"), rows * columns);
    const picked = () => place(state().token, columns);
    const pick = (/** @type {number} */ row, /** @type {number} */ column) =>
      put(model, { token: 1 + row * columns + column });
    // Where one comes back to from the class token's row.
    let kept = place(Math.max(1, state().token), columns);

    const box = frame(el, { label: t.name, room: model.get("_room") });
    box.root.classList.add("dnnl-similarity");
    const table = toggle({
      label: t.table,
      options: Object.entries(t.tables),
      value: state().table,
      onchange: (value) => put(model, { table: value }),
    });
    const scale = toggle({
      label: t.scale,
      options: Object.entries(t.scales),
      value: state().own ? "own" : "full",
      onchange: (value) => put(model, { scale: value }),
    });
    const rowAt = slider({
      label: t.row,
      min: 0,
      max: rows - 1,
      value: kept[0],
      oninput: (row) => pick(row, kept[1]),
    });
    const columnAt = slider({
      label: t.column,
      min: 0,
      max: columns - 1,
      value: kept[1],
      oninput: (column) => pick(kept[0], column),
    });
    const toClass = () => state().token ? put(model, { token: 0 }) : pick(...kept);
    const classRow = button(t.classRow, toClass, { "aria-pressed": "false" });

    const cells = { rows, columns, width: SIDE / columns, height: SIDE / rows };
    const pad = { width: SIDE, height: SIDE, cells: () => cells, onpick: pick };
    const large = gridPad({
      ...pad,
      picked: () => state().token ? picked() : null,
      home: () => kept,
    });
    const overview = gridPad({ ...pad, label: t.overview });
    const bar = canvas(SIDE, 34, "");
    const under = h("p", { class: "dnnl-says dnnl-under", "aria-hidden": "true" });
    const says = statusLine();
    const one = panel(t.one, large.root, under, rowAt.root, columnAt.root);
    const every = panel(t.all, overview.root, bar.root, classRow);
    box.controls.append(table.root, scale.root);
    box.stage.append(panels(one.root, every.root), says.root);
    box.caption.textContent = t.caption;

    const drawLarge = (/** @type {Float32Array} */ patches, /** @type {number} */ low) => {
      large.fit();
      heatMap(large.ctx, patches, rows, columns, { min: low, max: 1, w: SIDE, h: SIDE });
    };

    /** @type {{ of: string, sheet: HTMLCanvasElement } | undefined} all maps, as last coloured */
    let coloured;
    const drawOverview = (/** @type {Table} */ name, /** @type {number} */ low) => {
      if (coloured?.of !== `${name} ${low}`) {
        const [height, width] = [rows * rows, columns * columns];
        const sheet = heatSheet(of(name).every, height, width, { min: low, max: 1 });
        coloured = { of: `${name} ${low}`, sheet };
      }
      overview.fit();
      overview.ctx.imageSmoothingEnabled = false;
      overview.ctx.drawImage(coloured.sheet, 0, 0, SIDE, SIDE);
      drawLines(overview.ctx, rows, columns, color(box.root, "--dnnl-paper"));
    };

    const draw = () => {
      const { table: name, token, own } = state(), { maps } = of(name);
      const low = own ? of(name).low : -1;
      drawLarge(maps[token].subarray(1), low);
      drawOverview(name, low);
      drawBar(bar, low, color(box.root, "--dnnl-ink"));
      if (token) {
        kept = picked();
        large.mark(kept);
        overview.mark(kept);
      }
      large.name(t.map(token ? t.patch(token, ...picked()) : t.classToken));
      bar.name(t.bar(decimal(low)));
      says.say(sentence(t, maps[token], token, columns));

      table.set(name);
      scale.set(own ? "own" : "full");
      rowAt.set(kept[0]);
      columnAt.set(kept[1]);
      classRow.setAttribute("aria-pressed", String(token === 0));
    };

    large.root.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "mouse") return;
      const cell = large.cellAt(event), { table: name, token } = state();
      const value = (/** @type {number} */ row, /** @type {number} */ column) =>
        decimal(of(name).maps[token][1 + row * columns + column]);
      under.textContent = cell && t.under(...cell, value(...cell));
    });
    large.root.addEventListener("pointerleave", () => under.textContent = "");

    const redraw = schedule(draw);
    redraw();
    const stops = [
      listen(model, ["table", "token", "scale"], redraw),
      onTheme(redraw),
      large.stop,
      overview.stop,
      redraw.cancel,
      says.stop,
    ];
    return () => {
      stops.forEach((stop) => stop());
      box.root.remove();
    };
  },
});
