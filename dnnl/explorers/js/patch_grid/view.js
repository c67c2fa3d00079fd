/** @file PatchGrid: a photograph under its grid of patches. */

import { slider } from "../lib/controls.js";
import { color, frame, h, language, onTheme, schedule, statusLine, textsIn } from "../lib/dom.js";
import { canvas, decode, outline, picture, sheetOf } from "../lib/draw.js";
import { gridPad } from "../lib/grid_pad.js";
import { bytes, listen, put } from "../lib/model.js";
import { facts, patchValues, samePlace } from "./compute.js";

/** @import { Texts, View } from "../lib/types.d.ts" */
/** @typedef {Texts<typeof import("./en.js").default>} OwnTexts */

/**
 * @param {OwnTexts} texts
 * @param {View} view
 */
async function render(texts, { model, el }) {
  const t = textsIn(texts, language(model, el));
  const [H, W] = model.get("_size");
  const { root, controls, stage, caption } = frame(el, { label: t.name, room: model.get("_room") });
  const photo = await decode(bytes(model, "_photo"));
  const sheet = sheetOf(photo);
  let s = facts(H, W, model.get("patch_size"), model.get("index"));

  const size = slider({
    label: t.size,
    min: 8,
    max: Math.floor(Math.min(H, W) / 2),
    value: s.P,
    format: (v) => `${v} px`,
    oninput(P) {
      put(model, { patch_size: P, index: samePlace(s, facts(H, W, P, 0)) });
    },
  });
  const order = slider({
    label: t.index,
    min: 0,
    max: s.n - 1,
    value: s.index,
    oninput: (index) => put(model, { index }),
  });
  controls.append(size.root, order.root);

  const scale = 448 / Math.max(H, W);
  const grid = gridPad({
    width: W * scale,
    height: H * scale,
    cells: () => ({ rows: s.rows, columns: s.cols, width: s.P * scale, height: s.P * scale }),
    picked: () => [s.row, s.col],
    onpick(row, col) {
      const index = row * s.cols + col;
      if (index !== s.index) put(model, { index });
    },
    hover: true,
  });
  grid.root.classList.add("dnnl-pg-photo");
  const tiles = [t.patch, ...t.channels].map((name) => {
    const view = canvas(84, 84, name);
    return { view, root: h("figure", {}, view.root, h("figcaption", {}, name)) };
  });
  const many = h("p", {}),
    numbers = h("div", { class: "dnnl-pg-numbers", tabindex: 0, role: "region" });
  const long = canvas(720, 40, "");
  long.root.classList.add("dnnl-pg-long");
  const near = [-3, -2, -1, 0, 1, 2, 3].map((step) => {
    const view = canvas(56, 56, ""), name = h("figcaption", {});
    view.root.setAttribute("aria-hidden", "true");
    return {
      step,
      view,
      name,
      root: h("figure", { class: step ? null : "dnnl-pg-here" }, view.root, name),
    };
  });
  const shapes = h("p", { class: "dnnl-pg-shapes" }),
    sums = h("p"),
    losses = h("p"),
    says = statusLine();
  stage.append(
    h(
      "div",
      { class: "dnnl-pg" },
      grid.root,
      h(
        "div",
        {},
        says.root,
        h("div", { class: "dnnl-pg-tiles" }, tiles.map((tile) => tile.root)),
        many,
        numbers,
        shapes,
        sums,
        losses,
      ),
      h(
        "div",
        { class: "dnnl-pg-strip" },
        long.root,
        h("div", { class: "dnnl-pg-near" }, near.map((one) => one.root)),
      ),
    ),
  );
  caption.textContent = t.caption;

  /** Draw patch i into a square view, in colour or one channel of it. */
  function drawPatch(view, i, channel = /** @type {number | null} */ (null)) {
    view.fit();
    if (i < 0 || i >= s.n) return;
    const x = (i % s.cols) * s.P, y = Math.floor(i / s.cols) * s.P;
    if (channel == null) {
      view.ctx.imageSmoothingEnabled = false;
      view.ctx.drawImage(sheet, x, y, s.P, s.P, 0, 0, view.width, view.height);
      return;
    }
    const one = new ImageData(s.P, s.P);
    patchValues(photo.data, W, s, i, channel).forEach((v, k) =>
      one.data.set([v, v, v, 255], 4 * k)
    );
    picture(view.ctx, one, 0, 0, view.width, view.height);
  }

  function drawGrid() {
    const { ctx } = grid, step = s.P * scale;
    grid.fit();
    grid.name(t.photo(s));
    ctx.imageSmoothingEnabled = true;
    ctx.drawImage(sheet, 0, 0, grid.width, grid.height);
    const [right, bottom] = [s.cols * step, s.rows * step];
    ctx.fillStyle = "rgba(0, 0, 0, 0.72)"; // what no patch covers
    ctx.fillRect(right, 0, grid.width - right, grid.height);
    ctx.fillRect(0, bottom, right, grid.height - bottom);
    ctx.strokeStyle = "rgba(255, 255, 255, 0.65)";
    ctx.lineWidth = s.n > 400 ? 0.5 : 1;
    ctx.beginPath();
    for (let c = 0; c <= s.cols; c++) {
      ctx.moveTo(c * step, 0);
      ctx.lineTo(c * step, bottom);
    }
    for (let r = 0; r <= s.rows; r++) {
      ctx.moveTo(0, r * step);
      ctx.lineTo(right, r * step);
    }
    ctx.stroke();
    outline(ctx, s.col * step, s.row * step, step, step, [
      ["#fff", 6],
      [color(root, "--dnnl-class-token"), 3],
    ]);
  }

  function drawStrip() {
    const { ctx } = long, step = long.width / s.n;
    long.fit();
    long.name(t.strip(s));
    ctx.imageSmoothingEnabled = true;
    ctx.imageSmoothingQuality = "high";
    for (let i = 0; i < s.n; i++) {
      const x = (i % s.cols) * s.P, y = Math.floor(i / s.cols) * s.P;
      ctx.drawImage(sheet, x, y, s.P, s.P, i * step, 6, step + 0.3, 28);
    }
    ctx.fillStyle = color(root, "--dnnl-class-token");
    const middle = (s.index + 0.5) * step;
    ctx.fillRect(middle - Math.max(step, 4) / 2, 0, Math.max(step, 4), 6);
    ctx.fillRect(middle - Math.max(step, 4) / 2, 34, Math.max(step, 4), 6);
    for (const { step: ahead, view, name } of near) {
      drawPatch(view, s.index + ahead);
      const i = s.index + ahead;
      name.textContent = i < 0 || i >= s.n ? "" : String(i);
    }
  }

  function write() {
    says.say(t.where(s));
    many.textContent = t.numbers(s);
    numbers.setAttribute("aria-label", t.numbers(s));
    const most = 32 * 32; // of a channel; who wants more has Python
    numbers.replaceChildren(...t.channels.map((name, c) => {
      const all = patchValues(photo.data, W, s, s.index, c);
      const text = all.slice(0, most).map((v) => (v / 255).toFixed(3)).join(" ");
      return h(
        "p",
        {},
        h("strong", {}, `${name} `),
        text,
        all.length > most ? ` ${t.more(all.length - most)}` : null,
      );
    }));
    shapes.replaceChildren(
      h("span", {}, h("small", {}, t.image), `(1, 3, ${H}, ${W}) →`),
      h("span", {}, h("small", {}, t.patches), `(1, ${s.n}, ${s.width}) →`),
      h("span", {}, h("small", {}, t.tokens), `(1, ${s.n}, D)`),
    );
    sums.textContent = `${t.count(s)} · ${t.pairs(s)}`;
    losses.textContent = s.lost ? t.lost(s) : t.none;
    losses.className = s.lost ? "dnnl-pg-lost" : "";
    size.set(s.P);
    order.input.max = String(s.n - 1);
    order.set(s.index);
  }

  function draw() {
    s = facts(H, W, model.get("patch_size"), model.get("index"));
    drawGrid();
    tiles.forEach(({ view }, i) => drawPatch(view, s.index, i ? i - 1 : null));
    drawStrip();
    write();
  }

  long.root.addEventListener("pointerdown", (event) => {
    const index = Math.min(s.n - 1, Math.max(0, Math.floor(long.at(event)[0] / long.width * s.n)));
    put(model, { index });
  });
  const redraw = schedule(draw);
  const stops = [listen(model, ["patch_size", "index"], redraw), onTheme(redraw), grid.stop];
  redraw();
  return () => {
    redraw.cancel();
    says.stop();
    for (const stop of stops) stop();
    root.remove();
  };
}

/** @param {OwnTexts} texts */
export default (texts) => ({ render: (/** @type {View} */ view) => render(texts, view) });
