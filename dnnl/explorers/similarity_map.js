/* How alike are two positions? The cosine similarity of one row of a table with all the others. */

const TEXT = {
  en: {
    name: "Similarity of positions",
    table: "Table",
    tables: { trained: "trained", sincos: "sin-cos", random: "random" },
    scale: "Colours",
    scales: { full: "−1 to 1", own: "smallest to 1" },
    row: "row", column: "column",
    classRow: "class token's row",
    one: "One row with all others",
    all: "Every row with all others",
    patch: (t, r, c) => `patch (${r}, ${c}), row ${t} of the table`,
    classToken: "the class token's row, row 0 of the table",
    // (what the map says in numbers)
    says: (what, near, rest, most, value, cls) => `Picked: ${what}. Cosine with its neighbours ${near} on average, ` +
      `with all other patches ${rest}; most like patch (${most}): ${value}. With the class token's row: ${cls}.`,
    saysClass: (low, high, most) => "Picked: the class token's row, row 0 of the table. " +
      `Cosine with the patches: from ${low} to ${high}, most like patch (${most}).`,
    saysZero: "Picked: the class token's row, row 0 of the table. In a sin-cos table it is all zeros: " +
      "it has no direction, and its similarity to every row is set to 0.",
    under: (r, c, v) => `under the pointer: patch (${r}, ${c}), ${v}`,
    map: (what) => `Map of 14 by 14 patches, coloured by similarity to ${what}. Arrow keys move the picked patch.`,
    overview: "All maps at once: at the place of each patch, its own map. The picked one is outlined.",
    bar: (low) => `Colours run from ${low} (dark blue) to 1 (yellow).`,
    caption: "Pick a patch: press on a map, use the sliders, or focus the large map and use the arrow keys. " +
      "Compare the tables: in which is a patch like its neighbours in every direction, " +
      "in which only along its own row and column, and in which like nothing but itself? " +
      "The class token's row stands apart: it belongs to no place on the grid.",
  },
  zh: {
    name: "位置之间的相似度",
    table: "位置表",
    tables: { trained: "训练得到", sincos: "正余弦", random: "随机" },
    scale: "颜色范围",
    scales: { full: "−1 到 1", own: "最小值到 1" },
    row: "行", column: "列",
    classRow: "类别标记的那一行",
    one: "选中的一行与其余各行",
    all: "每一行与其余各行",
    patch: (t, r, c) => `图像块 (${r}, ${c})，即表中第 ${t} 行`,
    classToken: "类别标记的那一行，即表中第 0 行",
    says: (what, near, rest, most, value, cls) => `选中：${what}。余弦相似度：与相邻图像块平均 ${near}，` +
      `与其余图像块平均 ${rest}；与图像块 (${most}) 最相似，为 ${value}；与类别标记那一行的相似度为 ${cls}。`,
    saysClass: (low, high, most) => "选中：类别标记的那一行，即表中第 0 行。" +
      `它与各图像块的余弦相似度在 ${low} 与 ${high} 之间，与图像块 (${most}) 最相似。`,
    saysZero: "选中：类别标记的那一行，即表中第 0 行。正余弦表的这一行全为零，没有方向，与任何一行的相似度都记为 0。",
    under: (r, c, v) => `指针所在：图像块 (${r}, ${c})，${v}`,
    map: (what) => `14 × 14 个图像块的网格，颜色表示与所选那一行的相似度。选中：${what}。按方向键改选。`,
    overview: "全部相似度图：每个图像块的位置上画着它自己的那一张，选中的一张带边框。",
    bar: (low) => `颜色从 ${low}（深蓝）到 1（黄）。`,
    caption: "选一个图像块：在图上点按，拖动滑块，或者选中大图，再按方向键。" +
      "再比较三张表：在哪一张里，图像块与四面八方的邻居都相似？在哪一张里，只与同行、同列的相似？又在哪一张里，只与自己相似？" +
      "类别标记的那一行另当别论：它在网格上没有位置。",
  },
};

const SIDE = 336;

function render({ model, el }) {
  const lang = language(model, el), t = texts(TEXT, lang);
  const [rows, columns] = model.get("_grid_size"), dim = model.get("_embed_dim"), n = rows * columns;
  const tables = {
    trained: () => halfToFloat(bytes(model, "_trained")),
    random: () => halfToFloat(bytes(model, "_random")),
    sincos: () => {
      const table = new Float32Array((n + 1) * dim);
      table.set(sincosTable(rows, columns, dim), dim);
      return table;
    },
  };
  const units = {};   // name → unit rows, made when first asked for
  const maps = {};    // name → all similarities (n + 1) × (n + 1)
  const unit = (name) => units[name] ??= unitRows(tables[name](), dim);
  const all = (name) => maps[name] ??= Array.from({ length: n + 1 }, (_, i) => cosines(unit(name), dim, i));

  // What the traits say, made safe: a linked control may have set anything.
  const state = () => {
    const table = model.get("table") in tables ? model.get("table") : "trained";
    const token = Math.min(n, Math.max(0, Math.round(model.get("token")) || 0));
    return { table, token, own: model.get("scale") === "own" };
  };
  const place = (token) => [Math.floor((token - 1) / columns), (token - 1) % columns];
  let kept = place(Math.max(1, state().token));   // where the arrows return to from the class token
  const pick = (token) => put(model, { token });
  const pickPlace = (r, c) =>
    pick(1 + Math.min(rows - 1, Math.max(0, r)) * columns + Math.min(columns - 1, Math.max(0, c)));

  /* ---- controls ---- */
  const box = frame(el, { label: t.name, room: model.get("_room") });
  const pickTable = toggle({
    label: t.table, options: Object.entries(t.tables), value: state().table,
    onchange: (table) => put(model, { table }),
  });
  const pickScale = toggle({
    label: t.scale, options: Object.entries(t.scales), value: state().own ? "own" : "full",
    onchange: (scale) => put(model, { scale }),
  });
  const rowAt = slider({
    label: t.row, min: 0, max: rows - 1, value: 0, oninput: (r) => pickPlace(r, kept[1]),
  });
  const columnAt = slider({
    label: t.column, min: 0, max: columns - 1, value: 0, oninput: (c) => pickPlace(kept[0], c),
  });
  const classRow = button(t.classRow, () => (state().token ? pick(0) : pickPlace(...kept)), { "aria-pressed": "false" });
  box.controls.append(pickTable.root, pickScale.root);

  /* ---- figures ---- */
  const large = canvas(SIDE, SIDE, "");
  large.root.tabIndex = 0;
  const overview = canvas(SIDE, SIDE, t.overview);
  const bar = canvas(SIDE, 34, "");
  const pointed = h("p", { class: "dnnl-says", "aria-hidden": "true", style: { minHeight: "1.5em", color: "var(--dnnl-muted)", fontSize: "0.9rem" } });
  const says = live();
  Object.assign(says.root.style, { marginTop: "0.5rem", minHeight: "4.6em" });
  const wide = { style: { display: "grid", gap: "0 1rem", gridTemplateColumns: "1fr" } };
  const one = panel(t.one, large.root, pointed, h("div", wide, rowAt.root, columnAt.root));
  const every = panel(t.all, overview.root, bar.root, h("div", { style: { marginTop: "1.4rem" } }, classRow));
  box.stage.append(panels(one.root, every.root), says.root);
  box.caption.textContent = t.caption;

  const cellAt = (x, y) => [Math.floor((y / SIDE) * rows), Math.floor((x / SIDE) * columns)];

  function drawOverview(name, low, token) {
    const image = new ImageData(columns * columns, rows * rows), width = columns * columns;
    all(name).forEach((row, i) => {
      if (i === 0) return;
      const [r, c] = place(i);
      for (let j = 0; j < n; j++) {
        const y = r * rows + Math.floor(j / columns), x = c * columns + (j % columns);
        image.data.set(viridis((row[j + 1] - low) / (1 - low)), 4 * (y * width + x));
        image.data[4 * (y * width + x) + 3] = 255;
      }
    });
    overviewSheet = image;
    drawnAs = `${name} ${low}`;
  }
  let overviewSheet = null, drawnAs = "";

  function draw() {
    const { table, token, own } = state();
    const row = cosines(unit(table), dim, token), patches = row.subarray(1);
    const low = own ? Math.min(...all(table).slice(1).map((r) => Math.min(...r.subarray(1)))) : -1;
    if (token) kept = place(token);

    large.fit();
    colormap(large.ctx, patches, rows, columns, { min: low, max: 1, w: SIDE, h: SIDE });
    overview.fit();
    if (drawnAs !== `${table} ${low}`) drawOverview(table, low);
    picture(overview.ctx, overviewSheet, 0, 0, SIDE, SIDE);
    const w = SIDE / columns, tall = SIDE / rows;
    overview.ctx.strokeStyle = color(box.root, "--dnnl-paper");
    overview.ctx.lineWidth = 1;
    overview.ctx.beginPath();
    for (let i = 1; i < columns; i++) { overview.ctx.moveTo(i * w, 0); overview.ctx.lineTo(i * w, SIDE); }
    for (let i = 1; i < rows; i++) { overview.ctx.moveTo(0, i * tall); overview.ctx.lineTo(SIDE, i * tall); }
    overview.ctx.stroke();
    if (token) {
      const [r, c] = place(token);
      for (const pad of [large, overview]) outline(pad.ctx, c * w + 1.5, r * tall + 1.5, w - 3, tall - 3);
    }
    drawBar(low);
    speak(table, token, patches, row[0]);

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
    colormap(ctx, Float32Array.from({ length: 256 }, (_, i) => i), 1, 256, { y: 8, w: SIDE, h: 9 });
    ctx.fillStyle = color(box.root, "--dnnl-ink");
    ctx.font = "13px system-ui, sans-serif";
    ctx.textBaseline = "top";
    for (const [align, at, value] of [["left", 0, low], ["center", SIDE / 2, (low + 1) / 2], ["right", SIDE, 1]]) {
      ctx.textAlign = align;
      ctx.fillText(signed(value, own2(value)), at, 20);
    }
    bar.name(t.bar(signed(low)));
  }
  const own2 = (value) => (Number.isInteger(value) ? 0 : 2);

  function speak(table, token, patches, withClass) {
    const what = token ? t.patch(token, ...place(token)) : t.classToken;
    large.name(t.map(what));
    let most = -1;
    for (let i = 0; i < n; i++) if (i !== token - 1 && (most < 0 || patches[i] > patches[most])) most = i;
    const at = place(most + 1).join(", ");
    if (!token) {
      const values = [...patches];
      if (values.every((v) => v === 0)) says.say(t.saysZero);
      else says.say(t.saysClass(signed(Math.min(...values)), signed(Math.max(...values)), at));
      return;
    }
    const [r, c] = place(token), near = [], rest = [];
    for (let i = 0; i < n; i++) {
      const [y, x] = place(i + 1), far = Math.abs(y - r) + Math.abs(x - c);
      if (far === 1) near.push(patches[i]);
      else if (far > 1) rest.push(patches[i]);
    }
    const mean = (values) => signed(values.reduce((a, b) => a + b, 0) / values.length);
    says.say(t.says(what, mean(near), mean(rest), at, signed(patches[most]), signed(withClass)));
  }

  /* ---- what the reader does ---- */
  const redraw = schedule(draw);
  const step = (dr, dc) => () => {
    const { token } = state();
    if (!token) return pickPlace(...kept);
    const [r, c] = place(token);
    return pickPlace(r + dr, c + dc);
  };
  const point = (event) => {
    if (event.pointerType !== "mouse") return;
    const [r, c] = cellAt(...large.at(event)), inside = r >= 0 && c >= 0 && r < rows && c < columns;
    const { table, token } = state();
    pointed.textContent = inside
      ? t.under(r, c, signed(dotRows(unit(table), dim, token, 1 + r * columns + c))) : "";
  };
  large.root.addEventListener("pointermove", point);
  large.root.addEventListener("pointerleave", () => { pointed.textContent = ""; });
  const stops = [
    listen(model, ["table", "token", "scale"], redraw),
    onTheme(redraw),
    onPick(large, (x, y) => pickPlace(...cellAt(x, y))),
    onPick(overview, (x, y) => pickPlace(...cellAt(x, y))),
    onKeys(large.root, {
      ArrowLeft: step(0, -1), ArrowRight: step(0, 1), ArrowUp: step(-1, 0), ArrowDown: step(1, 0),
    }),
  ];
  redraw();
  return () => { stops.forEach((stop) => stop()); redraw.cancel(); says.stop(); box.root.remove(); };
}

export default { render };
