/* PatchGrid: a photograph under its grid of patches. */

const TEXT = {
  en: {
    name: "Patch grid",
    size: "Patch size P",
    index: "Patch i",
    photo: (s) => `Photograph under a grid of ${s.rows} × ${s.cols} patches; patch ${s.index} is picked. Arrow keys move the pick.`,
    strip: (s) => `All ${s.n} patches in a row, in the order of the sequence; number ${s.index} is marked.`,
    near: (s) => `The patches before and after number ${s.index} in the sequence`,
    patch: "patch",
    channels: ["red", "green", "blue"],
    numbers: (s) => `Its ${s.P} · ${s.P} · 3 = ${s.width} numbers`,
    more: (n) => `… and ${n} more`,
    where: (s) => `Patch ${s.index}: row ${s.row}, column ${s.col} (${s.row} · ${s.cols} + ${s.col} = ${s.index})`,
    image: "image", patches: "patches", tokens: "tokens",
    count: (s) => `N = ${s.rows} · ${s.cols} = ${s.n}`,
    pairs: (s) => `N² = ${s.pairs} pairs for attention`,
    none: "No pixel is lost.",
    lost: (s) => `${s.P} does not divide ${s.odd}: ${s.lost} pixels at the border (${s.percent} %) belong to no patch. The chapter's modules refuse such a size.`,
    caption: "Try: drag i from 0 and watch the reading order; halve P and compare N²; choose a P that does not divide 224. Point at the photograph, tap it, or use the arrow keys on it.",
  },
  zh: {
    name: "图像块网格",
    size: "图像块边长 P",
    index: "图像块 i",
    photo: (s) => `照片上盖着 ${s.rows} × ${s.cols} 的图像块网格；选中第 ${s.index} 块。按方向键改选。`,
    strip: (s) => `全部 ${s.n} 个图像块按序列顺序排成一行，标出了第 ${s.index} 块。`,
    near: (s) => `序列中第 ${s.index} 块前后的图像块`,
    patch: "图像块",
    channels: ["红", "绿", "蓝"],
    numbers: (s) => `这一块的 ${s.P} · ${s.P} · 3 = ${s.width} 个数`,
    more: (n) => `……还有 ${n} 个`,
    where: (s) => `第 ${s.index} 块：第 ${s.row} 行、第 ${s.col} 列（${s.row} · ${s.cols} + ${s.col} = ${s.index}）`,
    image: "图像", patches: "图像块", tokens: "token",
    count: (s) => `N = ${s.rows} · ${s.cols} = ${s.n}`,
    pairs: (s) => `注意力要算 N² = ${s.pairs} 对`,
    none: "一个像素也没丢。",
    lost: (s) => `${s.P} 不能整除 ${s.odd.replace(", ", " 和 ")}：边缘有 ${s.lost} 个像素（${s.percent}%）不属于任何图像块。本章的模块不接受这样的尺寸。`,
    caption: "试一试：从 0 开始拖动 i，看阅读顺序；把 P 减半，比较 N²；选一个不能整除 224 的 P。用鼠标指向照片、点按照片，或在照片上按方向键，都可以选图像块。",
  },
};

const STYLE = `
.dnnl-pg { display: grid; gap: 0.8rem 1.2rem; }
@container (min-width: 600px) { .dnnl-pg { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); } }
.dnnl-pg > * { min-width: 0; }
.dnnl-pg .dnnl-pg-photo { cursor: crosshair; touch-action: manipulation; }
.dnnl-pg figure { margin: 0; }
.dnnl-pg figcaption { color: var(--dnnl-muted); font-size: 0.85rem; text-align: center; }
.dnnl-pg-tiles { display: flex; gap: 0.4rem; margin-bottom: 0.5rem; }
.dnnl-pg-tiles > * { flex: 1 1 0; max-width: 84px; min-width: 0; }
.dnnl-pg-numbers { background: var(--dnnl-raised); border: 1px solid var(--dnnl-hair); font: 0.78rem/1.45 ui-monospace, monospace; height: 6.2em; margin-bottom: 0.5rem; overflow: auto; padding: 0.3rem 0.5rem; }
.dnnl-pg-numbers p + p { margin-top: 0.3rem; }
.dnnl-pg-strip { grid-column: 1 / -1; }
.dnnl-pg-strip canvas { max-width: none !important; }
.dnnl-pg-long { cursor: pointer; height: 40px !important; }
.dnnl-pg-near { display: flex; gap: 3px; justify-content: center; margin-top: 0.4rem; }
.dnnl-pg-near figure { border: 3px solid transparent; flex: 1 1 0; max-width: 58px; min-width: 0; }
.dnnl-pg-near figure.dnnl-pg-here { border-color: var(--dnnl-class-token); }
.dnnl-pg-shapes { display: flex; flex-wrap: wrap; font-family: ui-monospace, monospace; font-size: 0.9rem; gap: 0.2rem 0.7rem; margin-bottom: 0.4rem !important; }
.dnnl-pg-shapes small { color: var(--dnnl-muted); display: block; font-size: 0.8rem; line-height: 1.2; }
.dnnl-pg-lost { color: var(--dnnl-class-ink); }
`;

/** Every quantity that the figure shows, from the two numbers that the reader sets. */
function facts(height, width, P, picked) {
  const rows = Math.floor(height / P), cols = Math.floor(width / P), n = rows * cols;
  const index = Math.min(picked, n - 1);
  const lost = height * width - n * P * P;
  return {
    P, rows, cols, n, index, lost,
    row: Math.floor(index / cols), col: index % cols, width: 3 * P * P,
    pairs: (n * n).toLocaleString("en"), percent: (100 * lost / (height * width)).toFixed(1),
    odd: [height, width].filter((side, i, all) => side % P && all.indexOf(side) === i).join(", "),
  };
}

async function render({ model, el }) {
  const t = texts(TEXT, language(model, el));
  const [H, W] = model.get("_size");
  const { root, controls, stage, caption } = frame(el, { label: t.name, room: model.get("_room") });
  root.append(h("style", {}, STYLE));
  const photo = await decode(bytes(model, "_photo"));
  const sheet = h("canvas", { width: W, height: H });
  sheet.getContext("2d").putImageData(photo, 0, 0);
  let s = facts(H, W, model.get("patch_size"), model.get("index"));

  const size = slider({
    label: t.size, min: 8, max: Math.floor(Math.min(H, W) / 2), value: s.P, format: (v) => `${v} px`,
    oninput(P) {
      // The pick stays where it was in the photograph.
      const next = facts(H, W, P, 0);
      const row = Math.min(next.rows - 1, Math.floor((s.row + 0.5) * s.P / P));
      const col = Math.min(next.cols - 1, Math.floor((s.col + 0.5) * s.P / P));
      put(model, { patch_size: P, index: row * next.cols + col });
    },
  });
  const order = slider({ label: t.index, min: 0, max: s.n - 1, value: s.index, oninput: (index) => put(model, { index }) });
  controls.append(size.root, order.root);

  const scale = 448 / Math.max(H, W);
  const grid = canvas(W * scale, H * scale, "");
  grid.root.classList.add("dnnl-pg-photo");
  grid.root.tabIndex = 0;
  const tiles = [t.patch, ...t.channels].map((name) => {
    const view = canvas(84, 84, name);
    return { view, root: h("figure", {}, view.root, h("figcaption", {}, name)) };
  });
  const many = h("p", {}), numbers = h("div", { class: "dnnl-pg-numbers", tabindex: 0, role: "region" });
  const long = canvas(720, 40, "");
  long.root.classList.add("dnnl-pg-long");
  const near = [-3, -2, -1, 0, 1, 2, 3].map((step) => {
    const view = canvas(56, 56, ""), name = h("figcaption", {});
    view.root.setAttribute("aria-hidden", "true");
    return { step, view, name, root: h("figure", { class: step ? null : "dnnl-pg-here" }, view.root, name) };
  });
  const shapes = h("p", { class: "dnnl-pg-shapes" }), sums = h("p"), losses = h("p"), says = live();
  stage.append(h("div", { class: "dnnl-pg" },
    grid.root,
    h("div", {}, says.root, h("div", { class: "dnnl-pg-tiles" }, tiles.map((tile) => tile.root)),
      many, numbers, shapes, sums, losses),
    h("div", { class: "dnnl-pg-strip" }, long.root, h("div", { class: "dnnl-pg-near" }, near.map((one) => one.root)))));
  caption.textContent = t.caption;

  /** Draw patch i into a square view, in colour or one channel of it. */
  function drawPatch(view, i, channel = null) {
    view.fit();
    if (i < 0 || i >= s.n) return;
    const x = (i % s.cols) * s.P, y = Math.floor(i / s.cols) * s.P;
    if (channel == null) {
      view.ctx.imageSmoothingEnabled = false;
      view.ctx.drawImage(sheet, x, y, s.P, s.P, 0, 0, view.width, view.height);
      return;
    }
    const one = new ImageData(s.P, s.P);
    values(i, channel).forEach((v, k) => one.data.set([v, v, v, 255], 4 * k));
    picture(view.ctx, one, 0, 0, view.width, view.height);
  }

  /** The P · P bytes of one channel of patch i, row by row. */
  function values(i, channel) {
    const x = (i % s.cols) * s.P, y = Math.floor(i / s.cols) * s.P;
    return Array.from({ length: s.P * s.P }, (_, k) =>
      photo.data[4 * ((y + Math.floor(k / s.P)) * W + x + (k % s.P)) + channel]);
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
    for (let c = 0; c <= s.cols; c++) { ctx.moveTo(c * step, 0); ctx.lineTo(c * step, bottom); }
    for (let r = 0; r <= s.rows; r++) { ctx.moveTo(0, r * step); ctx.lineTo(right, r * step); }
    ctx.stroke();
    for (const [line, style] of [[6, "#fff"], [3, color(root, "--dnnl-class-token")]]) {
      ctx.lineWidth = line;
      ctx.strokeStyle = style;
      ctx.strokeRect(s.col * step, s.row * step, step, step);
    }
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
      name.textContent = i < 0 || i >= s.n ? "" : i;
    }
  }

  function write() {
    says.say(t.where(s));
    many.textContent = t.numbers(s);
    numbers.setAttribute("aria-label", t.numbers(s));
    const most = 32 * 32; // of a channel; who wants more has Python
    numbers.replaceChildren(...t.channels.map((name, c) => {
      const all = values(s.index, c);
      const text = all.slice(0, most).map((v) => (v / 255).toFixed(3)).join(" ");
      return h("p", {}, h("strong", {}, `${name} `), text, all.length > most ? ` ${t.more(all.length - most)}` : null);
    }));
    shapes.replaceChildren(
      h("span", {}, h("small", {}, t.image), `(1, 3, ${H}, ${W}) →`),
      h("span", {}, h("small", {}, t.patches), `(1, ${s.n}, ${s.width}) →`),
      h("span", {}, h("small", {}, t.tokens), `(1, ${s.n}, D)`));
    sums.textContent = `${t.count(s)} · ${t.pairs(s)}`;
    losses.textContent = s.lost ? t.lost(s) : t.none;
    losses.className = s.lost ? "dnnl-pg-lost" : "";
    size.set(s.P);
    order.input.max = s.n - 1;
    order.set(s.index);
  }

  function draw() {
    s = facts(H, W, model.get("patch_size"), model.get("index"));
    drawGrid();
    tiles.forEach(({ view }, i) => drawPatch(view, s.index, i ? i - 1 : null));
    drawStrip();
    write();
  }

  const pick = (row, col) => {
    const index = Math.min(s.rows - 1, Math.max(0, row)) * s.cols + Math.min(s.cols - 1, Math.max(0, col));
    if (index !== s.index) put(model, { index });
  };
  const point = (event) => {
    const [x, y] = grid.at(event), step = s.P * scale;
    if (x < s.cols * step && y < s.rows * step) pick(Math.floor(y / step), Math.floor(x / step));
  };
  grid.root.addEventListener("pointerdown", point);
  grid.root.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") point(event); });
  long.root.addEventListener("pointerdown", (event) => {
    const index = Math.min(s.n - 1, Math.max(0, Math.floor(long.at(event)[0] / long.width * s.n)));
    put(model, { index });
  });
  onKeys(grid.root, {
    ArrowLeft: () => pick(s.row, s.col - 1),
    ArrowRight: () => pick(s.row, s.col + 1),
    ArrowUp: () => pick(s.row - 1, s.col),
    ArrowDown: () => pick(s.row + 1, s.col),
    Home: () => pick(s.row, 0),
    End: () => pick(s.row, s.cols - 1),
  });

  const redraw = schedule(draw);
  const stops = [listen(model, ["patch_size", "index"], redraw), onTheme(redraw)];
  redraw();
  return () => { redraw.cancel(); says.stop(); for (const stop of stops) stop(); root.remove(); };
}

export default { render };
