/* ClassAttention: what the class token looks at, and whether its verdict depends on that. */

const TEXT = {
  en: {
    name: "What the class token attends to",
    maps: "Layer and head",
    layer: (l) => `layer ${l}`,
    head: (i) => (i == null ? "mean" : `head ${i}`),
    mapName: (l, i) => (i == null ? `layer ${l}, mean` : `layer ${l}, head ${i}`),
    photo: "What the model sees",
    photoLabel: (s) => `Photograph of ${s.n} patches, ${s.hidden} of them hidden; patch ${s.patch} is picked. Arrow keys move the pick.`,
    map: (s) => `Attention: ${s.map}`,
    mapLabel: (s) => `Map of the class token's attention to ${s.n} patches, ${s.map}: from 0 to ${s.most} %, most at row ${s.row}, column ${s.column}. Arrow keys move the pick.`,
    names: "Which photograph?",
    namesLabel: "Probability of each photograph",
    hide: "Hide before naming",
    kinds: { nothing: "nothing", most: "most attended", least: "least attended" },
    count: "How many",
    pick: (s) => `Patch ${s.patch} (row ${s.pickRow}, column ${s.pickColumn}) gets ${s.weight} % of the class token's attention; a plain mean would give it ${s.plain} %. `,
    self: (s) => `All patches together get ${s.patches} %, the class token itself ${s.own} %.`,
    says: (s) => `With ${s.hidden} of ${s.n} patches hidden it is named: ${s.guess}, ${s.percent} %.`,
    whole: (s) => `The whole photograph is named: ${s.guess}, ${s.percent} %.`,
    caption: "Compare the heads: they look at different things. But is what is looked at what counts? Choose “layer 0, mean” and hide the 147 patches with the most attention, then the 147 with the least. Point at a patch, tap it, or use the arrow keys to read its weight.",
  },
  zh: {
    name: "类别标记在看哪里",
    maps: "层与注意力头",
    layer: (l) => `层 ${l}`,
    head: (i) => (i == null ? "平均" : `头 ${i}`),
    mapName: (l, i) => (i == null ? `层 ${l}，平均` : `层 ${l}，头 ${i}`),
    photo: "模型看到的",
    photoLabel: (s) => `照片共 ${s.n} 个图像块，遮住了 ${s.hidden} 个；选中第 ${s.patch} 块。按方向键改选。`,
    map: (s) => `注意力：${s.map}`,
    mapLabel: (s) => `类别标记对 ${s.n} 个图像块的注意力，${s.map}：从 0 到 ${s.most}%，最大值在第 ${s.row} 行、第 ${s.column} 列。按方向键改选。`,
    names: "是哪张照片？",
    namesLabel: "每张照片的概率",
    hide: "先遮住哪些图像块",
    kinds: { nothing: "不遮", most: "最受关注的", least: "最不受关注的" },
    count: "遮住几个",
    pick: (s) => `第 ${s.patch} 块（第 ${s.pickRow} 行、第 ${s.pickColumn} 列）分到类别标记 ${s.weight}% 的注意力；如果平均分配，会分到 ${s.plain}%。`,
    self: (s) => `所有图像块合计分到 ${s.patches}%，类别标记自己留下 ${s.own}%。`,
    says: (s) => `${s.n} 个图像块遮住 ${s.hidden} 个，模型认成：${s.guess}（${s.percent}%）。`,
    whole: (s) => `看到整张照片，模型认成：${s.guess}（${s.percent}%）。`,
    caption: "比较各个头：它们看的东西不一样。可是，看得最多的，就是最起作用的吗？选“层 0，平均”，先遮住最受关注的 147 个图像块，再遮住最不受关注的 147 个。用鼠标指向图像块、点按它，或用方向键选中它，就能读到它的权重。",
  },
};

const STYLE = `
.dnnl-att-maps { border: 0; margin: 0; min-width: 0; padding: 0; width: 100%; }
.dnnl-explorer .dnnl-att-maps legend { float: none; font-weight: 600; padding: 0; width: auto; }
.dnnl-att-maps > div { display: grid; gap: 0.2rem 0.5rem; grid-template-columns: repeat(var(--columns), minmax(0, 1fr)); max-width: 34rem; }
.dnnl-att-maps > div > span { align-self: center; color: var(--dnnl-muted); font-size: 0.85rem; grid-column: 1 / -1; }
.dnnl-explorer .dnnl-att-maps label { cursor: pointer; font-size: 0.8rem; line-height: 1.2; min-width: 0; position: relative; text-align: center; }
.dnnl-att-maps input { appearance: none; cursor: pointer; height: 100%; inset: 0; margin: 0; opacity: 0; position: absolute; width: 100%; }
.dnnl-att-maps .dnnl-att-map { border: 3px solid transparent; display: block; margin: 0 auto; max-width: 90px; padding: 1px; }
.dnnl-att-maps input:checked + .dnnl-att-map { border-color: var(--dnnl-class-token); }
.dnnl-att-maps input:focus-visible + .dnnl-att-map { outline: 3px solid var(--dnnl-focus); outline-offset: 1px; }
.dnnl-att-maps input:checked ~ span:last-child { font-weight: 700; }
.dnnl-att-photo { touch-action: manipulation; }
.dnnl-att-names { align-self: start; max-width: 100%; width: 480px; }
.dnnl-att-names > p { font-size: 0.9rem; font-weight: 600; line-height: 1.3; padding-bottom: 0.25rem; }
.dnnl-att-hide .dnnl-slider { flex: 1 1 12rem; max-width: 20rem; }
.dnnl-att-hide { align-items: end; display: flex; flex-wrap: wrap; gap: 0.4rem 1.2rem; margin: 0.8rem 0 0.4rem; }
@container (min-width: 560px) {
  .dnnl-att-maps > div { grid-template-columns: max-content repeat(var(--columns), minmax(0, 1fr)); }
  .dnnl-explorer .dnnl-att-maps > div > span { grid-column: auto; }
}
`;

const KINDS = ["nothing", "most", "least"];

/** The mean over the heads of the class token's weights, or one head's: 1 + N numbers. */
function classRow(weights, heads, t, head) {
  const row = new Float32Array(t);
  for (let i = 0; i < heads; i++) {
    if (head != null && head !== i) continue;
    for (let j = 0; j < t; j++) row[j] += weights[i * t * t + j] / (head == null ? heads : 1);
  }
  return row;
}

async function render({ model, el }) {
  const lang = language(model, el), t = texts(TEXT, lang);
  const { root, controls, stage, caption } = frame(el, { label: t.name, room: model.get("_room") });
  root.append(h("style", {}, LIVE_STYLE + STYLE));
  const vit = liveModel(model), size = vit.image_size, [ph, pw] = vit.patch_size;
  const grid = [size[0] / ph, size[1] / pw], [rows, columns] = grid, n = rows * columns;
  const percent = (v, digits = 1) => (100 * v).toFixed(digits);

  const says = live(), verdict = live();
  const photos = photographs(model, root, lang, size, says.say);

  // One small map for every head of every layer, and the layer's mean: the choice is its own picture.
  const name = unique(), layers = [...Array(vit.num_layers).keys()];
  const heads = [null, ...Array(vit.num_heads).keys()];
  const small = layers.flatMap((layer) => heads.map((head) => {
    const view = canvas(columns * 6, rows * 6, "");
    view.root.setAttribute("aria-hidden", "true");
    const input = h("input", { type: "radio", name, "aria-label": t.mapName(layer, head), onchange: () => put(model, { layer, head }) });
    const label = h("label", {}, input, h("span", { class: "dnnl-att-map" }, view.root), h("span", { "aria-hidden": "true" }, t.head(head)));
    return { layer, head, view, input, label };
  }));
  const table = h("div", { style: `--columns: ${heads.length}` });
  for (const layer of layers) {
    table.append(h("span", { "aria-hidden": "true" }, t.layer(layer)), ...small.filter((one) => one.layer === layer).map((one) => one.label));
  }
  controls.append(...photos.roots, h("fieldset", { class: "dnnl-att-maps" }, h("legend", {}, t.maps), table));

  const photo = patchView(t.photo, grid), map = patchView("", grid), names = bars(t.namesLabel);
  for (const view of [photo, map]) {
    view.view.classList.add("dnnl-live-canvas", "dnnl-att-photo");
    view.view.tabIndex = 0;
    view.view.setAttribute("role", "application"); // so that a screen reader lets the arrow keys through
  }
  const hide = toggle({
    label: t.hide, options: KINDS.map((k) => [k, t.kinds[k]]), value: model.get("hide"),
    onchange: (kind) => put(model, { hide: kind }),
  });
  const count = slider({
    label: t.count, min: 1, max: n - 1, value: model.get("count"),
    oninput: (v) => put(model, { count: v }),
  });
  stage.append(
    h("div", { class: "dnnl-live-views" }, map.root, photo.root,
      h("div", { class: "dnnl-att-names dnnl-live-wide" }, h("p", {}, t.names), names.root)),
    says.root, h("div", { class: "dnnl-att-hide" }, hide.root, count.root), verdict.root);
  caption.textContent = t.caption;

  let shown, attention, named;               // named: probabilities by what was hidden

  /** The whole photograph: its maps, whatever is hidden later. */
  function look() {
    shown = shownImage(model, size);
    const out = vit.forward(shown.image, ...size, { attention: true, decode: false });
    attention = out.attention;
    named = { "": probabilities(out.logits) };
    for (const { layer, head, view } of small) {
      view.fit();
      const row = classRow(attention[layer], vit.num_heads, n + 1, head);
      colormap(view.ctx, row.subarray(1), rows, columns, { min: 0, w: view.width, h: view.height });
    }
    photos.show();
  }

  function update() {
    const layer = model.get("layer"), head = model.get("head"), kind = model.get("hide"), patch = model.get("patch");
    const row = classRow(attention[layer], vit.num_heads, n + 1, head), weights = row.subarray(1);
    for (const one of small) one.input.checked = one.layer === layer && one.head === head;

    const mask = new Uint8Array(n);
    if (kind !== "nothing") {
      const order = [...weights.keys()].sort((a, b) => (kind === "most" ? weights[b] - weights[a] : weights[a] - weights[b]));
      for (const i of order.slice(0, model.get("count"))) mask[i] = 1;
    }
    const hidden = mask.reduce((a, b) => a + b, 0);
    const key = hidden ? [layer, head, kind, hidden].join() : "";
    const p = named[key] ??= probabilities(vit.forward(shown.image, ...size, { mask, decode: false }).logits);

    const best = p.indexOf(Math.max(...p)), top = weights.indexOf(Math.max(...weights));
    const s = {
      n, hidden, patch, map: t.mapName(layer, head), most: percent(weights[top]),
      row: Math.floor(top / columns), column: top % columns,
      pickRow: Math.floor(patch / columns), pickColumn: patch % columns,
      weight: percent(weights[patch], 2), plain: percent(1 / (n + 1), 2),
      own: percent(row[0]), patches: percent(1 - row[0]),
      guess: photos.named(vit.photographs[best]), percent: percent(p[best], 0),
    };
    map.fit();
    colormap(map.ctx, weights, rows, columns, { min: 0, w: map.width, h: map.height });
    drawImage(photo, shown.pixels);
    drawHoles(photo, root, mask, columns);
    for (const view of [map, photo]) drawFrame(view, root, s.pickRow, s.pickColumn);
    map.caption.textContent = t.map(s);
    map.name(t.mapLabel(s));
    photo.name(t.photoLabel(s));
    names.set(vit.photographs.map((one, i) => ({
      name: photos.named(one), text: `${percent(p[i], 0)} %`, share: p[i], shown: i === best,
    })));
    says.say(t.pick(s) + t.self(s));
    verdict.say((hidden ? t.says : t.whole)(s));
    hide.set(kind);
    count.set(model.get("count"));
    count.input.disabled = kind === "nothing";
  }

  const redraw = schedule(update), relook = schedule(() => { look(); update(); });
  const pick = (row, column) => {
    const clip = (v, m) => Math.min(m - 1, Math.max(0, v));
    const patch = clip(row, rows) * columns + clip(column, columns);
    if (patch !== model.get("patch")) put(model, { patch });
  };
  for (const view of [map, photo]) {
    const point = (event) => pick(...view.patchAt(event));
    view.view.addEventListener("pointerdown", point);
    view.view.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") point(event); });
    const move = (down, right) => () => {
      const patch = model.get("patch");
      pick(Math.floor(patch / columns) + down, (patch % columns) + right);
    };
    onKeys(view.view, {
      ArrowUp: move(-1, 0), ArrowDown: move(1, 0), ArrowLeft: move(0, -1), ArrowRight: move(0, 1),
      Home: move(0, -columns), End: move(0, columns),
    });
  }

  const stops = [
    listen(model, ["photograph", "own"], relook),
    listen(model, ["layer", "head", "patch", "hide", "count"], redraw),
    onTheme(redraw),
  ];
  relook();
  return () => {
    redraw.cancel();
    relook.cancel();
    says.stop();
    verdict.stop();
    for (const stop of stops) stop();
    root.remove();
  };
}

export default { render };
