/* Another grid, the same table: resize it, look at it, and let the model of the chapter use it. */

const MODES = ["bicubic", "bilinear", "nearest", "nearest-exact", "area"];
const LEAST = 4, MOST = 28, SIDE = 330;
const SHARE = 130, WORDS = 22;   // the height of a small picture and of the words under it

const TEXT = {
  en: {
    name: "Resize the table of positions",
    rows: "rows", columns: "columns",
    mode: "mode",
    corners: "align_corners", antialias: "antialias",
    off: "False", on: "True",
    old: (h, w) => `Old table, ${h} × ${w}, read at the dots`,
    table: (r, c) => `Resized table, ${r} × ${c}`,
    map: "Cosine of the picked row with all",
    model: "The model with this table",
    pictures: ["the crop", "60 % hidden", "filled in, table resized", "filled in, all zeros"],
    resized: "resized", zeros: "all zeros",
    error: "squared error on the hidden patches",
    oldLabel: (h, w, n, r, c) => `The old grid of ${h} by ${w} cells in colours, with ${n} points where the new one ` +
      `reads it; squares show the weights of the old cells that make up the new cell (${r}, ${c}).`,
    tableLabel: (r, c, y, x) => `The resized table in colours, ${r} by ${c} cells; picked: row ${y}, column ${x}. ` +
      "Arrow keys move the picked cell.",
    mapLabel: (y, x) => `Cosine similarity of the row of cell (${y}, ${x}) with all others, from −1 (dark blue) to 1 (yellow).`,
    modelLabel: "Four pictures: the crop; with 60 per cent of its patches hidden; with these filled in by the model, with the resized table, and with a table of zeros.",
    says: (r, c, y, x, at, n, weights) => `${r} × ${c}: ${r * c + 1} rows. New cell (${y}, ${x}) reads the old grid at ` +
      `(${at}): ${n === 1 ? "one old row" : `${n} old rows, with weights ${weights}`}.`,
    home: " This is the table's own grid: nothing changes.",
    measured: (e, z) => ` Squared error on the hidden patches: ${e}; with a table of zeros: ${z}.`,
    unused: (mode) => ` align_corners and antialias do not apply to ${mode}.`,
    range: (low, high) => `from ${low} to ${high}`,
    colours: (share) => `Equal colours mean similar rows: red, green and blue are a row's places along the three main axes ` +
      `of the trained table (${share} % of its variance). `,
    caption: "Below, dark blue is a cosine of −1, yellow 1. White squares are positive weights, black ones negative. " +
      "Try: another grid that is not square; nearest, which on a larger grid only repeats rows; " +
      "bilinear on 4 × 4 with antialias False, which never looks at some of the old cells, and then True; " +
      "the first and last dots when align_corners changes. On larger grids the error moves little between the smooth " +
      "modes, and a lot without positions. (One crop is measured: the last digits mean nothing.)",
  },
  zh: {
    name: "缩放位置表",
    rows: "行数", columns: "列数",
    mode: "插值方式 mode",
    corners: "align_corners", antialias: "antialias",
    off: "False", on: "True",
    old: (h, w) => `旧表，${h} × ${w}，圆点是读取的位置`,
    table: (r, c) => `缩放后的表，${r} × ${c}`,
    map: "选中的一行与其余各行的余弦相似度",
    model: "使用这张表的模型",
    pictures: ["裁剪块", "遮住 60%", "补全：缩放后的表", "补全：全零的表"],
    resized: "缩放后的表", zeros: "全零的表",
    error: "被遮住的图像块上的平方误差",
    oldLabel: (h, w, n, r, c) => `${h} × ${w} 的旧网格，以颜色表示，${n} 个圆点是新网格读取的位置；` +
      `方块表示各个旧格在新格 (${r}, ${c}) 中的权重。`,
    tableLabel: (r, c, y, x) => `缩放后的位置表，以颜色表示，${r} × ${c} 格；选中第 ${y} 行、第 ${x} 列。按方向键改选。`,
    mapLabel: (y, x) => `格 (${y}, ${x}) 的那一行与其余各行的余弦相似度，从 −1（深蓝）到 1（黄）。`,
    modelLabel: "四幅图：裁剪块；遮住 60% 图像块的裁剪块；模型用缩放后的表补全的结果；用全零的表补全的结果。",
    says: (r, c, y, x, at, n, weights) => `${r} × ${c}：共 ${r * c + 1} 行。新格 (${y}, ${x}) 在旧网格的 (${at}) 处读取：` +
      `${n === 1 ? "只取一个旧行" : `取 ${n} 个旧行，权重${weights}`}。`,
    home: "这正是表自己的网格：什么也不变。",
    measured: (e, z) => `遮住处的平方误差：${e}；换成全零的表：${z}。`,
    unused: (mode) => `align_corners 和 antialias 不适用于 ${mode}。`,
    range: (low, high) => `在 ${low} 与 ${high} 之间`,
    colours: (share) => `颜色相近表示两行相似：红、绿、蓝是这一行在三个主轴上的坐标，主轴取自训练得到的位置表（占方差的 ${share}%）。`,
    caption: "相似度图中，深蓝是余弦 −1，黄是 1。白色方块是正权重，黑色方块是负权重。试一试：换一个不是正方形的网格；" +
      "放大时用 nearest，它只是重复旧行；用 bilinear 缩到 4 × 4，antialias 先取 False（有些旧格根本读不到），再换成 True；" +
      "切换 align_corners，看首尾的圆点。放大时，换用几种光滑的插值方式，误差变化很小；去掉位置嵌入，误差就大得多。（只测了一个裁剪块，末几位数字没有意义。）",
  },
};

function render({ model, el }) {
  const lang = language(model, el), t = texts(TEXT, lang);
  const vit = new ChapterVit(bytes(model, "_weights"), model.get("_index"));
  const dim = vit.embed_dim, p = vit.patch_size[0], old = model.get("_grid_size"), edge = MOST * p;
  const region = bytes(model, "_pixels");
  const ranks = Array.from(bytes(model, "_order")).reduce(
    (all, byte, i) => { all[i >> 1] |= byte << (8 * (i & 1)); return all; }, new Uint16Array(MOST * MOST));
  // (copied, since float32 must start at a multiple of four bytes)
  const basis = new Float32Array(Uint8Array.from(bytes(model, "_colours")).buffer);
  const mean = basis.subarray(0, dim), axes = basis.subarray(dim, 4 * dim);
  const [low, high] = [basis.subarray(4 * dim, 4 * dim + 3), basis.subarray(4 * dim + 3)];

  // What the traits say, made safe: a linked control may have set anything.
  const whole = (name, least, most) => Math.min(most, Math.max(least, Math.round(model.get(name)) || 0));
  function state() {
    const rows = whole("rows", LEAST, MOST), columns = whole("columns", LEAST, MOST);
    const mode = MODES.includes(model.get("mode")) ? model.get("mode") : "bicubic", smooth = isSmooth(mode);
    return {
      rows, columns, mode, smooth,
      alignCorners: smooth && Boolean(model.get("align_corners")),
      antialias: smooth && Boolean(model.get("antialias")),
      row: whole("row", 0, rows - 1), column: whole("column", 0, columns - 1),
    };
  }

  /** The colours of a table's patch rows. */
  function colours(table, rows, columns) {
    const image = new ImageData(columns, rows);
    for (let i = 0; i < rows * columns; i++) {
      for (let k = 0; k < 3; k++) {
        let place = 0;
        for (let d = 0; d < dim; d++) place += (table[(i + 1) * dim + d] - mean[d]) * axes[k * dim + d];
        image.data[4 * i + k] = Math.round((255 * (place - low[k])) / (high[k] - low[k]));   // (clamps)
      }
      image.data[4 * i + 3] = 255;
    }
    return image;
  }

  /** The middle of the photograph that has the new grid's size: (3, H, W) in [0, 1], and its mask. */
  function crop({ rows, columns }) {
    const top = (MOST - rows) >> 1, left = (MOST - columns) >> 1, height = rows * p, width = columns * p;
    const image = new Float32Array(3 * height * width);
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++)
        for (let c = 0; c < 3; c++)
          image[(c * height + y) * width + x] = region[((y + top * p) * edge + x + left * p) * 3 + c] / 255;
    const own = Array.from({ length: rows * columns }, (_, i) =>
      ranks[(top + Math.floor(i / columns)) * MOST + left + (i % columns)]);
    const hidden = Math.floor((6 * own.length + 5) / 10);
    const limit = [...own].sort((a, b) => a - b)[hidden - 1];
    return { image, height, width, mask: Uint8Array.from(own, (rank) => (rank <= limit ? 1 : 0)) };
  }

  /* ---- controls ---- */
  const box = frame(el, { label: t.name, room: model.get("_room") });
  const now = state();
  const rowsAt = slider({ label: t.rows, min: LEAST, max: MOST, value: now.rows, oninput: (rows) => put(model, { rows }) });
  const columnsAt = slider({ label: t.columns, min: LEAST, max: MOST, value: now.columns, oninput: (columns) => put(model, { columns }) });
  const modeAt = select({ label: t.mode, options: MODES.map((m) => [m, m]), value: now.mode, onchange: (mode) => put(model, { mode }) });
  const flag = (label, name) => toggle({
    label, options: [[false, t.off], [true, t.on]], value: Boolean(model.get(name)), onchange: (v) => put(model, { [name]: v }),
  });
  const cornersAt = flag(t.corners, "align_corners"), antialiasAt = flag(t.antialias, "antialias");
  for (const part of [rowsAt, columnsAt]) part.root.style.flex = "1 1 15rem";
  box.controls.append(rowsAt.root, columnsAt.root, modeAt.root, cornersAt.root, antialiasAt.root);

  /* ---- figures ---- */
  const oldPad = canvas(SIDE, SIDE, ""), newPad = canvas(SIDE, SIDE, ""), mapPad = canvas(SIDE, SIDE, "");
  const modelPad = canvas(SIDE, 2 * SHARE + 2 * WORDS + 6, t.modelLabel);
  newPad.root.tabIndex = 0;
  const bar = (label, colour) => {
    const fill = h("div", { style: { background: colour, height: "1rem", width: "0", borderRadius: "0.15rem" } });
    const value = h("span", { style: { fontVariantNumeric: "tabular-nums", textAlign: "right" } }, "…");
    return { fill, value, cells: [h("span", {}, label), h("div", {}, fill), value] };
  };
  const bars = { resized: bar(t.resized, "var(--dnnl-position)"), zeros: bar(t.zeros, "var(--dnnl-line)") };
  const errors = h("div", { style: {
    alignItems: "center", display: "grid", gap: "0.3rem 0.7rem", gridTemplateColumns: "auto 1fr 3.2em", margin: "0.2rem 0 0.7rem",
  } }, bars.resized.cells, bars.zeros.cells);
  const figures = {
    old: panel(t.old(...old), oldPad.root), table: panel("", newPad.root), map: panel(t.map, mapPad.root),
    model: panel(t.model, h("p", {}, t.error), errors, modelPad.root),
  };
  const says = live();
  Object.assign(says.root.style, { marginTop: "0.6rem", minHeight: lang === "zh" ? "4.6em" : "6.1em" });
  box.stage.append(panels(...Object.values(figures).map((f) => f.root)), says.root);
  box.caption.textContent = t.colours(model.get("_share")) + t.caption;

  const home = colours(vit.table, ...old);
  let drawn = null;             // the state that was drawn last, and its table
  let sentence = "";            // what is said of it, before the measurement

  /** The side of a cell in a figure: the grid is as large as fits, from the upper left. */
  const cellSide = (rows, columns) => SIDE / Math.max(rows, columns);

  function drawOld({ rows, columns, row, column, ...options }) {
    const [h0, w0] = old, cell = cellSide(h0, w0), { ctx } = oldPad;
    oldPad.fit();
    picture(ctx, home, 0, 0, w0 * cell, h0 * cell);
    const across = resizeTaps(w0, columns, options)[column], down = resizeTaps(h0, rows, options)[row];
    const weights = [];
    // What is not read fades; weights are squares of their area, white above zero and black below.
    ctx.fillStyle = color(box.root, "--dnnl-paper");
    ctx.globalAlpha = 0.45;
    for (let r = 0; r < h0; r++)
      for (let c = 0; c < w0; c++)
        if (!(down.index.includes(r) && across.index.includes(c))) ctx.fillRect(c * cell, r * cell, cell, cell);
    ctx.globalAlpha = 1;
    down.index.forEach((r, i) => across.index.forEach((c, j) => {
      const weight = down.weight[i] * across.weight[j];
      if (Math.abs(weight) < 1e-6) return;
      weights.push(weight);
      const side = Math.max(3, cell * Math.min(1, Math.sqrt(Math.abs(weight))));
      ctx.fillStyle = weight > 0 ? "#fff" : "#000";
      ctx.strokeStyle = weight > 0 ? "#000" : "#fff";
      ctx.lineWidth = 0.75;
      const box = [(c + 0.5) * cell - side / 2, (r + 0.5) * cell - side / 2, side, side];
      ctx.fillRect(...box);
      ctx.strokeRect(...box);
    }));
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
    for (const at of ys) for (const to of xs) { dot(to, at, 2.1, paper); dot(to, at, 1.4, ink); }
    dot(xs[column], ys[row], 5, "#fff");
    dot(xs[column], ys[row], 3.5, color(box.root, "--dnnl-class-token"));
    oldPad.name(t.oldLabel(h0, w0, rows * columns, row, column));
    const at = [ys[row], xs[column]].map((v) => signed(v / cell - 0.5)).join(", ");
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
    colormap(mapPad.ctx, map, rows, columns, { min: -1, max: 1, w: columns * cell, h: rows * cell });
    for (const pad of [newPad, mapPad]) outline(pad.ctx, column * cell + 1, row * cell + 1, cell - 2, cell - 2);

    figures.table.title(t.table(rows, columns));
    newPad.name(t.tableLabel(rows, columns, row, column));
    mapPad.name(t.mapLabel(row, column));
    rowsAt.set(rows);
    columnsAt.set(columns);
    modeAt.set(s.mode);
    cornersAt.set(Boolean(model.get("align_corners")));
    antialiasAt.set(Boolean(model.get("antialias")));
    for (const part of [cornersAt, antialiasAt]) for (const input of part.inputs) input.disabled = !s.smooth;

    sentence = t.says(rows, columns, row, column, at, weights.length, t.range(signed(Math.min(...weights)), signed(Math.max(...weights))))
      + (rows === old[0] && columns === old[1] ? t.home : "") + (s.smooth ? "" : t.unused(s.mode));
    const asked = [rows, columns, s.mode, s.alignCorners, s.antialias].join();
    if (asked !== shown.key) measureSoon(asked);
    speak();
  }

  /* ---- the model: after a pause, since a pass over a large grid takes longer than a frame ---- */
  const shown = { key: "", error: NaN, zeros: NaN };
  const withZeros = new Map();   // grid → what a table of zeros gives
  let timer = null, seen = false;

  /** Old values fade while new ones are on their way. */
  function pending(yes) {
    for (const { fill, value } of Object.values(bars)) {
      fill.style.opacity = yes ? "0.5" : "1";
      value.style.color = yes ? "var(--dnnl-muted)" : "";
    }
  }

  function measureSoon(key) {
    shown.key = key;
    shown.error = shown.zeros = NaN;
    pending(true);
    clearTimeout(timer);
    if (seen) timer = setTimeout(measure, 120);
  }

  function measure() {
    const { s, table } = drawn, { image, height, width, mask } = crop(s), grid = `${s.rows}×${s.columns}`;
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
      const most = Math.max(shown.error, shown.zeros || 0);
      for (const [name, value] of [["resized", shown.error], ["zeros", shown.zeros]]) {
        bars[name].fill.style.width = `${(100 * (value || 0)) / most}%`;
        bars[name].value.textContent = Number.isNaN(value) ? "…" : value.toFixed(3);
      }
      pending(false);
    };
    if (withZeros.has(grid)) return finish();
    show(images);
    timer = setTimeout(finish);   // (the page shows the one and may answer before the other)
    return undefined;
  }

  function speak() {
    says.say(sentence + (Number.isNaN(shown.zeros) ? "" : t.measured(shown.error.toFixed(3), shown.zeros.toFixed(3))));
  }

  /** Patches (N, 3·P·P) as pixels; those that `hide` marks are grey. */
  function pixels({ rows, columns }, patches, hide = null) {
    const width = columns * p, image = new ImageData(width, rows * p);
    for (let i = 0; i < rows * columns; i++) {
      const top = Math.floor(i / columns) * p, left = (i % columns) * p;
      for (let c = 0; c < 3; c++)
        for (let y = 0; y < p; y++)
          for (let x = 0; x < p; x++) {
            const value = hide?.[i] ? 0.5 : patches[((i * 3 + c) * p + y) * p + x] * vit.std + vit.mean;
            image.data[4 * ((top + y) * width + left + x) + c] = Math.round(255 * value);   // (clamps)
          }
    }
    for (let i = 3; i < image.data.length; i += 4) image.data[i] = 255;
    return image;
  }

  let last = null;               // what was drawn, to draw it again in the other theme
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
  const pick = (row, column) => {
    const s = state();
    put(model, { row: Math.min(s.rows - 1, Math.max(0, row)), column: Math.min(s.columns - 1, Math.max(0, column)) });
  };
  const pickNew = (px, py) => {
    const s = state(), cell = cellSide(s.rows, s.columns);
    pick(Math.floor(py / cell), Math.floor(px / cell));
  };
  /** The new cell that reads nearest to a place on the old grid. */
  const pickOld = (px, py) => {
    const s = state(), cell = cellSide(...old);
    const nearest = (n, to, at) => {
      const far = Array.from({ length: to }, (_, i) => Math.abs(samplingPoint(n, to, i, s) + 0.5 - at));
      return far.indexOf(Math.min(...far));
    };
    pick(nearest(old[0], s.rows, py / cell), nearest(old[1], s.columns, px / cell));
  };
  const step = (dr, dc) => () => { const s = state(); pick(s.row + dr, s.column + dc); };
  const stops = [
    listen(model, ["rows", "columns", "mode", "align_corners", "antialias", "row", "column"], redraw),
    onTheme(schedule(() => { draw(); drawPictures(); })),
    onPick(oldPad, pickOld), onPick(newPad, pickNew), onPick(mapPad, pickNew),
    onKeys(newPad.root, {
      ArrowLeft: step(0, -1), ArrowRight: step(0, 1), ArrowUp: step(-1, 0), ArrowDown: step(1, 0),
    }),
  ];
  // A model far down the page waits until it is looked at.
  const watch = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    seen = true;
    measureSoon(shown.key);
  });
  watch.observe(box.root);
  stops.push(() => watch.disconnect());
  redraw();
  return () => { stops.forEach((stop) => stop()); clearTimeout(timer); redraw.cancel(); says.stop(); box.root.remove(); };
}

export default { render };
