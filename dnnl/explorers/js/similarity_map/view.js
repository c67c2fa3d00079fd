/** @file How alike are two positions? The cosine similarity of one row of a table with all the others. */

import { button, slider, toggle } from "../lib/controls.js";
import { color, frame, h, language, onTheme, schedule, statusLine, textsIn } from "../lib/dom.js";
import { canvas, heatMap } from "../lib/draw.js";
import { gridPad } from "../lib/grid_pad.js";
import { bytes, listen, put } from "../lib/model.js";
import { clamp, decimal, halfToFloat } from "../lib/numbers.js";
import { panel, panels } from "../lib/panels.js";
import { cosines, dotRows, sincosTable, unitRows } from "../lib/tables.js";
import { mosaic, mostAlike, nearAndFar, place as placeOf, smallest } from "./compute.js";

/** @import { Texts, View } from "../lib/types.d.ts" */
/** @typedef {Texts<typeof import("./en.js").default>} OwnTexts */

const SIDE = 336;

/**
 * @param {OwnTexts} texts
 * @param {View} view
 */
function render(texts, { model, el }) {
  const lang = language(model, el), t = textsIn(texts, lang);
  const [rows, columns] = model.get("_grid_size"),
    dim = model.get("_embed_dim"),
    n = rows * columns;
  const tables = {
    trained: () => halfToFloat(bytes(model, "_trained")),
    random: () => halfToFloat(bytes(model, "_random")),
    sincos: () => {
      const table = new Float32Array((n + 1) * dim);
      table.set(sincosTable(rows, columns, dim), dim);
      return table;
    },
  };
  const units = {}; // name → unit rows, made when first asked for
  const maps = {}; // name → all similarities (n + 1) × (n + 1)
  const unit = (name) => units[name] ??= unitRows(tables[name](), dim);
  const all = (name) =>
    maps[name] ??= Array.from({ length: n + 1 }, (_, i) => cosines(unit(name), dim, i));

  // What the traits say, made safe: a linked control may have set anything.
  const state = () => {
    const table = model.get("table") in tables ? model.get("table") : "trained";
    const token = clamp(Math.round(model.get("token")) || 0, 0, n);
    return { table, token, own: model.get("scale") === "own" };
  };
  const place = (token) => placeOf(token, columns);
  let kept = place(Math.max(1, state().token)); // where the arrows return to from the class token
  const pick = (token) => put(model, { token });
  const pickPlace = (r, c) => pick(1 + clamp(r, 0, rows - 1) * columns + clamp(c, 0, columns - 1));

  /* ---- controls ---- */
  const box = frame(el, { label: t.name, room: model.get("_room") });
  const pickTable = toggle({
    label: t.table,
    options: Object.entries(t.tables),
    value: state().table,
    onchange: (table) => put(model, { table }),
  });
  const pickScale = toggle({
    label: t.scale,
    options: Object.entries(t.scales),
    value: state().own ? "own" : "full",
    onchange: (scale) => put(model, { scale }),
  });
  const rowAt = slider({
    label: t.row,
    min: 0,
    max: rows - 1,
    value: 0,
    oninput: (r) => pickPlace(r, kept[1]),
  });
  const columnAt = slider({
    label: t.column,
    min: 0,
    max: columns - 1,
    value: 0,
    oninput: (c) => pickPlace(kept[0], c),
  });
  const classRow = button(t.classRow, () => (state().token ? pick(0) : pickPlace(...kept)), {
    "aria-pressed": "false",
  });
  box.controls.append(pickTable.root, pickScale.root);

  /* ---- figures ---- */
  const grid = {
    width: SIDE,
    height: SIDE,
    cells: () => ({ rows, columns, width: SIDE / columns, height: SIDE / rows }),
    onpick: pickPlace,
  };
  const large = gridPad({
    ...grid,
    picked: () => state().token ? place(state().token) : null,
    home: () => kept,
  });
  const overview = gridPad({ ...grid, label: t.overview });
  const bar = canvas(SIDE, 34, "");
  const pointed = h("p", { class: "dnnl-says dnnl-sm-pointed", "aria-hidden": "true" });
  const says = statusLine();
  says.root.classList.add("dnnl-sm-says");
  const one = panel(t.one, large.root, pointed, rowAt.root, columnAt.root);
  const every = panel(
    t.all,
    overview.root,
    bar.root,
    h("div", { class: "dnnl-sm-class" }, classRow),
  );
  box.stage.append(panels(one.root, every.root), says.root);
  box.caption.textContent = t.caption;

  const mosaics = {}; // name → all maps in one picture

  function draw() {
    const { table, token, own } = state();
    const row = cosines(unit(table), dim, token), patches = row.subarray(1);
    const low = own ? smallest(all(table)) : -1;
    if (token) kept = place(token);

    large.fit();
    heatMap(large.ctx, patches, rows, columns, { min: low, max: 1, w: SIDE, h: SIDE });
    overview.fit();
    const every = mosaics[table] ??= mosaic(all(table), rows, columns);
    const box_ = { min: low, max: 1, w: SIDE, h: SIDE };
    heatMap(overview.ctx, every, rows * rows, columns * columns, box_);
    const w = SIDE / columns, tall = SIDE / rows;
    overview.ctx.strokeStyle = color(box.root, "--dnnl-paper");
    overview.ctx.lineWidth = 1;
    overview.ctx.beginPath();
    for (let i = 1; i < columns; i++) {
      overview.ctx.moveTo(i * w, 0);
      overview.ctx.lineTo(i * w, SIDE);
    }
    for (let i = 1; i < rows; i++) {
      overview.ctx.moveTo(0, i * tall);
      overview.ctx.lineTo(SIDE, i * tall);
    }
    overview.ctx.stroke();
    if (token) { for (const pad of [large, overview]) pad.mark(place(token)); }
    drawBar(low);
    speak(token, patches, row[0]);

    pickTable.set(table);
    pickScale.set(own ? "own" : "full");
    rowAt.set(kept[0]);
    columnAt.set(kept[1]);
    classRow.setAttribute("aria-pressed", String(token === 0));
    classRow.style.boxShadow = token === 0 ? "inset 0 0 0 3px var(--dnnl-class-token)" : "";
  }

  function drawBar(low) {
    bar.fit();
    const { ctx } = bar;
    heatMap(ctx, Float32Array.from({ length: 256 }, (_, i) => i), 1, 256, { y: 8, w: SIDE, h: 9 });
    ctx.fillStyle = color(box.root, "--dnnl-ink");
    ctx.font = "13px system-ui, sans-serif";
    ctx.textBaseline = "top";
    for (
      const [align, at, value] of [["left", 0, low], ["center", SIDE / 2, (low + 1) / 2], [
        "right",
        SIDE,
        1,
      ]]
    ) {
      ctx.textAlign = align;
      ctx.fillText(decimal(value, own2(value)), at, 20);
    }
    bar.name(t.bar(decimal(low)));
  }
  const own2 = (value) => (Number.isInteger(value) ? 0 : 2);

  function speak(token, patches, withClass) {
    const what = token ? t.patch(token, ...place(token)) : t.classToken;
    large.name(t.map(what));
    const most = mostAlike(patches, token);
    const at = place(most + 1).join(", ");
    if (!token) {
      const values = [...patches];
      if (values.every((v) => v === 0)) says.say(t.saysZero);
      else says.say(t.saysClass(decimal(Math.min(...values)), decimal(Math.max(...values)), at));
      return;
    }
    const { near, far } = nearAndFar(patches, token, columns);
    says.say(
      t.says(what, decimal(near), decimal(far), at, decimal(patches[most]), decimal(withClass)),
    );
  }

  /* ---- what the reader does ---- */
  const redraw = schedule(draw);
  const point = (event) => {
    if (event.pointerType !== "mouse") return;
    const cell = large.cellAt(event), { table, token } = state();
    if (!cell) return void (pointed.textContent = "");
    const [r, c] = cell;
    const value = dotRows(unit(table), dim, token, 1 + r * columns + c);
    pointed.textContent = t.under(r, c, decimal(value));
  };
  large.root.addEventListener("pointermove", point);
  large.root.addEventListener("pointerleave", () => {
    pointed.textContent = "";
  });
  const stops = [
    listen(model, ["table", "token", "scale"], redraw),
    onTheme(redraw),
    large.stop,
    overview.stop,
  ];
  redraw();
  return () => {
    stops.forEach((stop) => stop());
    redraw.cancel();
    says.stop();
    box.root.remove();
  };
}

/** @param {OwnTexts} texts */
export default (texts) => ({ render: (/** @type {View} */ view) => render(texts, view) });
