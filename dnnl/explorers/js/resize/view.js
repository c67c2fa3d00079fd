/**
 * @file Resize: another grid, the same table. Resize it, look at it, and let the chapter's model use
 *   it.
 */

import { bars } from "../lib/bars.js";
import { select, slider, toggle } from "../lib/controls.js";
import { color, frame, h, language, onTheme, schedule, statusLine, textsIn } from "../lib/dom.js";
import { canvas, heatMap, picture } from "../lib/draw.js";
import { gridPad } from "../lib/grid_pad.js";
import { bytes, listen, put } from "../lib/model.js";
import { clamp, decimal } from "../lib/numbers.js";
import { panel, panels } from "../lib/panels.js";
import { cosines, unitRows } from "../lib/tables.js";
import { ChapterVit, hiddenError } from "../live/vit.js";
import { basisOf, crop, pixelsOf, tableColours } from "./compute.js";
import { isSmooth, resizeTable, resizeTaps, samplingPoint } from "./kernels.js";

/** @import { Texts, View } from "../lib/types.d.ts" */
/** @typedef {Texts<typeof import("./en.js").default>} OwnTexts */

const MODES = ["bicubic", "bilinear", "nearest", "nearest-exact", "area"];
const LEAST = 4, MOST = 28, SIDE = 330;
const SHARE = 130, WORDS = 22; // the height of a small picture and of the words under it

/** The side of a cell in a figure: the grid is as large as fits. */
const cellSide = (rows, columns) => SIDE / Math.max(rows, columns);

/**
 * @param {OwnTexts} texts
 * @param {View} view
 */
function render(texts, { model, el }) {
  const lang = language(model, el), t = textsIn(texts, lang);
  const vit = new ChapterVit(bytes(model, "_weights"), model.get("_index"));
  const dim = vit.embed_dim, p = vit.patch_size[0];
  /** @type {[number, number]} */
  const old = model.get("_grid_size");
  const region = bytes(model, "_pixels");
  // Both are copied, because numbers must start at a multiple of their bytes.
  const ranks = new Uint16Array(Uint8Array.from(bytes(model, "_order")).buffer);
  const colourBytes = Uint8Array.from(bytes(model, "_colours"));
  const basis = basisOf(new Float32Array(colourBytes.buffer), dim);

  // What the traits say, made safe: a linked control may have set anything.
  const whole = (name, least, most) => clamp(Math.round(model.get(name)) || 0, least, most);
  function state() {
    const rows = whole("rows", LEAST, MOST), columns = whole("columns", LEAST, MOST);
    const mode = MODES.includes(model.get("mode")) ? model.get("mode") : "bicubic",
      smooth = isSmooth(mode);
    return {
      rows,
      columns,
      mode,
      smooth,
      alignCorners: smooth && Boolean(model.get("align_corners")),
      antialias: smooth && Boolean(model.get("antialias")),
      row: whole("row", 0, rows - 1),
      column: whole("column", 0, columns - 1),
    };
  }

  const colours = (table, rows, columns) =>
    new ImageData(tableColours(table, basis), columns, rows);

  /* ---- controls ---- */
  const box = frame(el, { label: t.name, room: model.get("_room") });
  const now = state();
  const rowsAt = slider({
    label: t.rows,
    min: LEAST,
    max: MOST,
    value: now.rows,
    oninput: (rows) => put(model, { rows }),
  });
  const columnsAt = slider({
    label: t.columns,
    min: LEAST,
    max: MOST,
    value: now.columns,
    oninput: (columns) => put(model, { columns }),
  });
  const modeAt = select({
    label: t.mode,
    options: MODES.map((m) => [m, m]),
    value: now.mode,
    onchange: (mode) => put(model, { mode }),
  });
  const flag = (label, name) =>
    toggle({
      label,
      options: [[false, t.off], [true, t.on]],
      value: Boolean(model.get(name)),
      onchange: (v) => put(model, { [name]: v }),
    });
  const cornersAt = flag(t.corners, "align_corners"), antialiasAt = flag(t.antialias, "antialias");
  for (const part of [rowsAt, columnsAt]) part.root.classList.add("dnnl-rs-size");
  box.controls.append(rowsAt.root, columnsAt.root, modeAt.root, cornersAt.root, antialiasAt.root);

  /* ---- figures ---- */
  const pick = (row, column) => put(model, { row, column });
  /** The cells of the new grid, which is as large as fits, from the upper left. */
  const newCells = () => {
    const { rows, columns } = state(), cell = cellSide(rows, columns);
    return { rows, columns, width: cell, height: cell };
  };
  /** The new cell that reads nearest to a point of the old grid. */
  const pickOld = (_row, _column, [row, column]) => {
    const s = state();
    const nearest = (n, to, at) => {
      const far = Array.from({ length: to }, (_, i) => Math.abs(samplingPoint(n, to, i, s) - at));
      return far.indexOf(Math.min(...far));
    };
    pick(nearest(old[0], s.rows, row), nearest(old[1], s.columns, column));
  };
  const oldSide = cellSide(...old);
  const oldPad = gridPad({
    width: SIDE,
    height: SIDE,
    cells: () => ({ rows: old[0], columns: old[1], width: oldSide, height: oldSide }),
    onpick: pickOld,
  });
  const [newPad, mapPad] = [true, false].map((keys) =>
    gridPad({
      width: SIDE,
      height: SIDE,
      cells: newCells,
      picked: keys ? () => [state().row, state().column] : undefined,
      onpick: pick,
    })
  );
  const modelPad = canvas(SIDE, 2 * SHARE + 2 * WORDS + 6, t.modelLabel);
  const errorBars = bars(t.error);
  errorBars.root.classList.add("dnnl-rs-errors");
  const figures = {
    old: panel(t.old(...old), oldPad.root),
    table: panel("", newPad.root),
    map: panel(t.map, mapPad.root),
    model: panel(t.model, h("p", {}, t.error), errorBars.root, modelPad.root),
  };
  const says = statusLine();
  says.root.classList.add("dnnl-rs-says");
  box.stage.append(panels(...Object.values(figures).map((f) => f.root)), says.root);
  box.caption.textContent = t.colours(model.get("_share")) + t.caption;

  const home = colours(vit.table, ...old);
  let drawn = null; // the state that was drawn last, and its table
  let sentence = ""; // what is said of it, before the measurement

  function drawOld({ rows, columns, row, column, ...options }) {
    const [h0, w0] = old, cell = cellSide(h0, w0), { ctx } = oldPad;
    oldPad.fit();
    picture(ctx, home, 0, 0, w0 * cell, h0 * cell);
    const across = resizeTaps(w0, columns, options)[column],
      down = resizeTaps(h0, rows, options)[row];
    const weights = [];
    // What is not read fades; weights are squares of their area, white above zero and black below.
    ctx.fillStyle = color(box.root, "--dnnl-paper");
    ctx.globalAlpha = 0.45;
    for (let r = 0; r < h0; r++) {
      for (let c = 0; c < w0; c++) {
        if (!(down.index.includes(r) && across.index.includes(c))) {
          ctx.fillRect(c * cell, r * cell, cell, cell);
        }
      }
    }
    ctx.globalAlpha = 1;
    down.index.forEach((r, i) =>
      across.index.forEach((c, j) => {
        const weight = down.weight[i] * across.weight[j];
        if (Math.abs(weight) < 1e-6) return;
        weights.push(weight);
        const side = Math.max(3, cell * Math.min(1, Math.sqrt(Math.abs(weight))));
        ctx.fillStyle = weight > 0 ? "#fff" : "#000";
        ctx.strokeStyle = weight > 0 ? "#000" : "#fff";
        ctx.lineWidth = 0.75;
        /** @type {[number, number, number, number]} */
        const box = [(c + 0.5) * cell - side / 2, (r + 0.5) * cell - side / 2, side, side];
        ctx.fillRect(...box);
        ctx.strokeRect(...box);
      })
    );
    const point = (n, to, i) => (samplingPoint(n, to, i, options) + 0.5) * cell;
    const xs = Array.from({ length: columns }, (_, c) => point(w0, columns, c));
    const ys = Array.from({ length: rows }, (_, r) => point(h0, rows, r));
    const dot = (at, to, radius, fill) => {
      ctx.beginPath();
      ctx.arc(at, to, radius, 0, 2 * Math.PI);
      ctx.fillStyle = fill;
      ctx.fill();
    };
    const [ink, paper] = [color(box.root, "--dnnl-ink"), color(box.root, "--dnnl-paper")];
    for (const at of ys) {
      for (const to of xs) {
        dot(to, at, 2.1, paper);
        dot(to, at, 1.4, ink);
      }
    }
    dot(xs[column], ys[row], 5, "#fff");
    dot(xs[column], ys[row], 3.5, color(box.root, "--dnnl-class-token"));
    oldPad.name(t.oldLabel(h0, w0, rows * columns, row, column));
    const at = [ys[row], xs[column]].map((v) => decimal(v / cell - 0.5)).join(", ");
    return { at, weights };
  }

  function draw() {
    const s = state(), { rows, columns, row, column } = s;
    const table = resizeTable(vit.table, old, [rows, columns], { dim, ...s });
    drawn = { s, table };
    const cell = cellSide(rows, columns);
    const { at, weights } = drawOld(s);

    newPad.fit();
    picture(newPad.ctx, colours(table, rows, columns), 0, 0, columns * cell, rows * cell);
    mapPad.fit();
    const map = cosines(unitRows(table, dim), dim, 1 + row * columns + column).subarray(1);
    heatMap(mapPad.ctx, map, rows, columns, {
      min: -1,
      max: 1,
      w: columns * cell,
      h: rows * cell,
    });
    for (const pad of [newPad, mapPad]) pad.mark([row, column]);

    figures.table.title(t.table(rows, columns));
    newPad.name(t.tableLabel(rows, columns, row, column));
    mapPad.name(t.mapLabel(row, column));
    rowsAt.set(rows);
    columnsAt.set(columns);
    modeAt.set(s.mode);
    cornersAt.set(Boolean(model.get("align_corners")));
    antialiasAt.set(Boolean(model.get("antialias")));
    for (const part of [cornersAt, antialiasAt]) {
      for (const input of part.inputs) input.disabled = !s.smooth;
    }

    sentence = t.says(
      rows,
      columns,
      row,
      column,
      at,
      weights.length,
      t.range(decimal(Math.min(...weights)), decimal(Math.max(...weights))),
    ) +
      (rows === old[0] && columns === old[1] ? t.home : "") + (s.smooth ? "" : t.unused(s.mode));
    const asked = [rows, columns, s.mode, s.alignCorners, s.antialias].join();
    if (asked !== shown.key) measureSoon(asked);
    speak();
  }

  /* ---- the model: after a pause, since a pass over a large grid takes longer than a frame ---- */
  const shown = { key: "", error: NaN, zeros: NaN };
  const withZeros = new Map(); // grid → what a table of zeros gives
  let timer = null, seen = false;

  /** Show both errors; old values fade while new ones are on their way. */
  function showErrors(/** @type {boolean} */ pending) {
    if (!pending) {
      const most = Math.max(shown.error, shown.zeros || 0);
      const line = (name, value, emphasised) => ({
        name,
        text: Number.isNaN(value) ? "…" : value.toFixed(3),
        share: (value || 0) / most || 0,
        shown: emphasised,
      });
      errorBars.set([line(t.resized, shown.error, true), line(t.zeros, shown.zeros, false)]);
    }
    errorBars.root.classList.toggle("dnnl-rs-pending", pending);
  }

  function measureSoon(key) {
    shown.key = key;
    shown.error = shown.zeros = NaN;
    showErrors(true);
    clearTimeout(timer);
    if (seen) timer = setTimeout(measure, 120);
  }

  function measure() {
    const { s, table } = drawn,
      { image, height, width, mask } = crop(region, ranks, MOST, p, [s.rows, s.columns]),
      grid = `${s.rows}×${s.columns}`;
    /** A pass with some positions: its error, and the crop filled in. */
    const run = (positions) => {
      const { target, patches } = vit.forward(image, height, width, { mask, table: positions });
      const size = target.length / mask.length;
      const filled = patches.map((value, k) => (mask[Math.floor(k / size)] ? value : target[k]));
      return { error: hiddenError(patches, target, mask), image: pixels(s, filled), target };
    };
    const { error, image: filled, target } = run(table);
    shown.error = error;
    const images = [pixels(s, target), pixels(s, target, mask), filled];
    const finish = () => {
      if (!withZeros.has(grid)) withZeros.set(grid, run(new Float32Array(table.length)));
      shown.zeros = withZeros.get(grid).error;
      show([...images, withZeros.get(grid).image]);
      speak();
    };
    const show = (all) => {
      last = { s, images: all };
      drawPictures();
      showErrors(false);
    };
    if (withZeros.has(grid)) return finish();
    show(images);
    timer = setTimeout(finish); // (the page shows the one and may answer before the other)
    return undefined;
  }

  function speak() {
    says.say(
      sentence +
        (Number.isNaN(shown.zeros)
          ? ""
          : t.measured(shown.error.toFixed(3), shown.zeros.toFixed(3))),
    );
  }

  const pixels = ({ rows, columns }, patches, hide = /** @type {Uint8Array | null} */ (null)) => {
    const sizes = { p, mean: vit.mean, std: vit.std };
    return new ImageData(pixelsOf(patches, [rows, columns], sizes, hide), columns * p, rows * p);
  };

  let last = null; // what was drawn, to draw it again in the other theme
  function drawPictures() {
    modelPad.fit();
    if (!last) return;
    const { s: { rows, columns }, images } = last, { ctx } = modelPad, half = SIDE / 2;
    const cell = Math.min((half - 6) / columns, SHARE / rows);
    ctx.font = "13px system-ui, sans-serif";
    ctx.textAlign = "center";
    ctx.textBaseline = "top";
    ctx.fillStyle = color(box.root, "--dnnl-ink");
    images.forEach((image, i) => {
      const middle = half * ((i % 2) + 0.5), top = (i >> 1) * (rows * cell + WORDS + 6);
      picture(ctx, image, middle - (columns * cell) / 2, top, columns * cell, rows * cell);
      ctx.fillText(t.pictures[i], middle, top + rows * cell + 4);
    });
  }

  /* ---- what the reader does ---- */
  const redraw = schedule(draw);
  const stops = [
    listen(
      model,
      ["rows", "columns", "mode", "align_corners", "antialias", "row", "column"],
      redraw,
    ),
    onTheme(schedule(() => {
      draw();
      drawPictures();
    })),
    oldPad.stop,
    newPad.stop,
    mapPad.stop,
  ];
  // A model far down the page waits until it is looked at.
  const watch = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    seen = true;
    measureSoon(shown.key);
  });
  watch.observe(box.root);
  showErrors(false);
  stops.push(() => watch.disconnect());
  redraw();
  return () => {
    stops.forEach((stop) => stop());
    clearTimeout(timer);
    redraw.cancel();
    says.stop();
    box.root.remove();
  };
}

/** @param {OwnTexts} texts */
export default (texts) => ({ render: (/** @type {View} */ view) => render(texts, view) });
