/* Pipeline: the steps of the input module, with the tensors between them. */

const TEXT = {
  en: {
    name: "Pipeline of the input module",
    step: "Step",
    steps: { image: "image", patches: "patches", tokens: "projection", class_token: "class token", positions: "+ positions", dropout: "dropout" },
    back: "Back", next: "Next",
    order: "Order of the steps",
    orders: {
      class_first: "class token, + positions, dropout (the module)",
      positions_first: "+ positions, class token with its row, dropout",
      sliced: "+ the first N rows of the table, class token, dropout",
      dropout_first: "class token, dropout, + positions",
    },
    token: "Token i",
    before: "before", used: "what is added", after: "after",
    parameter: { tokens: "", class_token: "x_cls, a parameter", positions: "rows of the table P", dropout: "what is kept" },
    folded: "x_cls + P₀",
    says: {
      image: () => "The image: 3 channels of 64 × 64 pixels.",
      patches: (s) => `${s.N} patches of 16 · 16 · 3 = 768 numbers, one to a row, read row by row.`,
      tokens: (s) => `One linear map turns each row of 768 numbers into ${s.D}: a token.`,
      class_token: (s) => `One row more, in front: ${s.N} tokens become ${s.N + 1}. The others are as before.`,
      positions: (s) => `Every one of the ${s.rows} rows gets its own row of the table. The shape stays.`,
      sliced: (s) => `The table has ${s.N + 1} rows; cut to ${s.N}, each patch gets the row before its own.`,
      dropout: (s) => `In training, ${s.dropped} of ${s.total} numbers are set to 0; the rest are divided by ${1 - s.p}.`,
    },
    row: { class: "Token 0, the class token, has no patch", patch: (i, r, c) => `Token ${i}: patch ${i - 1}, row ${r}, column ${c}` },
    absent: "Token 0, the class token, comes in a later step.",
    starts: (whose, v) => `${whose}; begins ${v}, …`,
    same: "At the end: the same sequence as the module's, number by number.",
    differs: (s) => `At the end ${s.rows} of ${s.of} tokens differ from the module's, by up to ${s.most}.`,
    why: {
      class_first: "",
      positions_first: "Addition does not ask when: the class token has its row of the table inside.",
      sliced: "No error, and yet every patch has its neighbour's row, and the class token has none.",
      dropout_first: "The positions are never hidden now: where dropout left 0, the position stands alone.",
    },
    panel: (name, shape) => `Heat map: ${name}, ${shape}`,
    picture: "The photograph; the patch of the picked token is outlined",
    caption: "Try: step from the image to the sequence and watch the shape; then choose another order and see whether the result at the end changes. Each row of a heat map is a token, dark is −2, bright 2; at its left, in colour, what is in it: class token (orange), patch (blue), position (green). Pick a row by a tap or with the arrow keys.",
  },
  zh: {
    name: "输入模块的流程",
    step: "步骤",
    steps: { image: "图像", patches: "图像块", tokens: "投影", class_token: "类别标记", positions: "+ 位置嵌入", dropout: "dropout" },
    back: "上一步", next: "下一步",
    order: "步骤的顺序",
    orders: {
      class_first: "类别标记、+ 位置嵌入、dropout（模块的顺序）",
      positions_first: "+ 位置嵌入、类别标记（已含自己那一行）、dropout",
      sliced: "+ 位置表的前 N 行、类别标记、dropout",
      dropout_first: "类别标记、dropout、+ 位置嵌入",
    },
    token: "token i",
    before: "之前", used: "加入的内容", after: "之后",
    parameter: { tokens: "", class_token: "参数 x_cls", positions: "位置表 P 的各行", dropout: "保留的数" },
    folded: "x_cls + P₀",
    says: {
      image: () => "图像：3 个通道，64 × 64 像素。",
      patches: (s) => `${s.N} 个图像块，逐行读取；每块有 16 · 16 · 3 = 768 个数，占一行。`,
      tokens: (s) => `同一个线性映射把每行 768 个数变成 ${s.D} 个数，也就是一个 token。`,
      class_token: (s) => `前面多了一行：${s.N} 个 token 变成 ${s.N + 1} 个，其余不变。`,
      positions: (s) => `${s.rows} 行各加上位置表中自己的那一行，形状不变。`,
      sliced: (s) => `位置表有 ${s.N + 1} 行；截成 ${s.N} 行后，每个图像块加上的都是自己那一行的前一行。`,
      dropout: (s) => `训练时，${s.total} 个数中有 ${s.dropped} 个置为 0，其余除以 ${1 - s.p}。`,
    },
    row: { class: "token 0 是类别标记，不对应任何图像块", patch: (i, r, c) => `token ${i}：第 ${i - 1} 个图像块，第 ${r} 行、第 ${c} 列` },
    absent: "token 0（类别标记）在后面的步骤才加入。",
    starts: (whose, v) => `${whose}；开头是 ${v}，……`,
    same: "最终得到的序列与模块的完全相同，每个数都一样。",
    differs: (s) => `最终 ${s.of} 个 token 中有 ${s.rows} 个与模块的不同，最大相差 ${s.most}。`,
    why: {
      class_first: "",
      positions_first: "加法与先后无关：类别标记里已经含有自己的那一行。",
      sliced: "没有报错，但每个图像块都加上了邻居的那一行，类别标记则一行也没有。",
      dropout_first: "这样一来，位置永远遮不住：dropout 置 0 的地方，只剩下位置。",
    },
    panel: (name, shape) => `热图：${name}，${shape}`,
    picture: "照片，框出所选 token 对应的图像块",
    caption: "试一试：从图像一步步走到序列，注意形状的变化；再换一种顺序，看最后的结果变不变。热图的每一行是一个 token，暗色为 −2，亮色为 2；左侧的颜色表示其中的成分：类别标记（橙）、图像块（蓝）、位置嵌入（绿）。点按一行，或用方向键选择。",
  },
};

const STYLE = `
.dnnl-pl-steps { align-items: end; display: flex; flex-wrap: wrap; gap: 0.4rem 0.8rem; }
.dnnl-pl-row { display: grid; gap: 0.6rem 1rem; grid-template-columns: repeat(2, minmax(0, 1fr)); margin: 0.6rem 0; }
@container (min-width: 560px) { .dnnl-pl-row { grid-template-columns: 116px repeat(3, minmax(0, 1fr)); } }
.dnnl-pl-row figure { margin: 0; min-width: 0; }
.dnnl-pl-row figcaption { font-size: 0.85rem; line-height: 1.3; min-height: 2.6em; }
.dnnl-pl-row figcaption code { background: none; border: 0; color: var(--dnnl-muted); font-size: 0.82rem; padding: 0; }
.dnnl-pl-row canvas { cursor: pointer; touch-action: manipulation; }
.dnnl-pl-photo canvas { cursor: default; max-width: 116px !important; }
.dnnl-pl-all { min-height: 6em; }
.dnnl-pl-all p + p { margin-top: 0.15rem; }
.dnnl-pl-end { font-weight: 600; }
`;

const RANGE = 2, GUTTER = 9; // beside each row, in colour: what is in it

/** The names of the steps, in an order. */
function sequenceOf(order) {
  const last = order === "class_first" ? ["class_token", "positions", "dropout"]
    : order === "dropout_first" ? ["class_token", "dropout", "positions"]
    : ["positions", "class_token", "dropout"];
  return ["image", "patches", "tokens", ...last];
}

/** A matrix as the steps pass it on. */
const matrix = (values, cols) => ({ values, cols, rows: values.length / cols });

/** rows of a matrix from..to */
const rowsOf = (m, from, to) => matrix(m.values.subarray(from * m.cols, to * m.cols), m.cols);

const added = (a, b) => matrix(a.values.map((v, i) => v + b.values[i]), a.cols);

function stacked(a, b) {
  const values = new Float32Array(a.values.length + b.values.length);
  values.set(a.values);
  values.set(b.values, a.values.length);
  return matrix(values, a.cols);
}

/** The image, standardised and cut: N rows of C·P·P numbers, channel by channel. */
function patchesOf(pixels, { H, W, P }) {
  const cols = W / P, values = new Float32Array(3 * H * W);
  let k = 0;
  for (let i = 0; i < (H / P) * cols; i++)
    for (let c = 0; c < 3; c++)
      for (let y = 0; y < P; y++)
        for (let x = 0; x < P; x++)
          values[k++] = (pixels[3 * ((Math.floor(i / cols) * P + y) * W + (i % cols) * P + x) + c] / 255 - 0.5) / 0.25;
  return matrix(values, 3 * P * P);
}

/** Every step in one order: {name: {after, used}}. */
function compute({ patches, tokens, token0, table, kept, p }, order) {
  const N = tokens.rows, steps = { patches: { after: patches }, tokens: { after: tokens } };
  let x = tokens;
  for (const name of sequenceOf(order).slice(3)) {
    let used;
    if (name === "class_token") {
      used = order === "positions_first" ? added(token0, rowsOf(table, 0, 1)) : token0;
      x = stacked(used, x);
    } else if (name === "positions") {
      used = x.rows > N ? table : order === "sliced" ? rowsOf(table, 0, N) : rowsOf(table, 1, N + 1);
      x = added(x, used);
    } else {
      used = kept;
      x = matrix(x.values.map((v, i) => (kept.values[i] ? v / (1 - p) : 0)), x.cols);
    }
    steps[name] = { after: x, used };
  }
  return { steps, end: x };
}

function render({ model, el }) {
  const t = texts(TEXT, language(model, el));
  const { root, controls, stage, caption } = frame(el, { label: t.name, room: model.get("_room") });
  root.append(h("style", {}, STYLE));
  const sizes = model.get("_sizes"), { H, W, P, D, N, p } = sizes;
  const pixels = bytes(model, "_photo");
  const of = (name) => matrix(halfToFloat(bytes(model, name)), D);
  const parts = {
    patches: patchesOf(pixels, sizes), tokens: of("_tokens"), token0: of("_class_token"), table: of("_positions"),
    kept: matrix(Float32Array.from(bytes(model, "_kept")), D), p,
  };
  const results = Object.fromEntries(Object.keys(t.orders).map((order) => [order, compute(parts, order)]));

  const back = button(t.back, () => put(model, { step: model.get("step") - 1 }));
  const next = button(t.next, () => put(model, { step: model.get("step") + 1 }));
  const walk = h("div", { class: "dnnl-pl-steps" });
  const order = select({ label: t.order, options: Object.entries(t.orders), value: model.get("order"), onchange: (v) => put(model, { order: v }) });
  const token = slider({ label: t.token, min: 0, max: N, value: model.get("token"), oninput: (v) => put(model, { token: v }) });
  controls.append(walk, order.root, token.root);

  const photo = canvas(116, 116, t.picture);
  const panels = ["before", "used", "after"].map((name) => {
    const view = canvas(190, 204, "");
    const text = h("figcaption", {});
    const panel = { name, view, text, root: h("figure", {}, text, view.root), matrix: null, first: 0 };
    view.root.addEventListener("pointerdown", (event) => {
      if (!panel.matrix) return;
      const row = Math.min(panel.matrix.rows - 1, Math.max(0, Math.floor(view.at(event)[1] / view.height * panel.matrix.rows)));
      put(model, { token: row + panel.first });
    });
    return panel;
  });
  panels[2].view.root.tabIndex = 0;
  onKeys(panels[2].view.root, {
    ArrowUp: () => put(model, { token: Math.max(0, model.get("token") - 1) }),
    ArrowDown: () => put(model, { token: Math.min(N, model.get("token") + 1) }),
    ArrowLeft: () => put(model, { step: Math.max(0, model.get("step") - 1) }),
    ArrowRight: () => put(model, { step: Math.min(5, model.get("step") + 1) }),
  });
  const says = live(), row = h("p", {}), end = h("p", { class: "dnnl-pl-end" }), why = h("p", {});
  stage.append(
    h("div", { class: "dnnl-pl-row" },
      h("figure", { class: "dnnl-pl-photo" }, h("figcaption", {}, t.steps.image, h("br"), h("code", {}, `(1, 3, ${H}, ${W})`)), photo.root),
      panels.map((panel) => panel.root)),
    h("div", { class: "dnnl-pl-all" }, says.root, row, end, why));
  caption.textContent = t.caption;

  let walked = null; // the order for which the row of steps was made
  function drawSteps(names, step) {
    if (walked !== names.join()) {
      walked = names.join();
      const steps = toggle({ label: t.step, options: names.map((name, i) => [i, t.steps[name]]), value: step, onchange: (v) => put(model, { step: v }) });
      walk.replaceChildren(steps.root, h("div", {}, back, " ", next));
      walk.set = steps.set;
    }
    walk.set(step);
    back.disabled = step === 0;
    next.disabled = step === names.length - 1;
  }

  function drawPhoto(picked) {
    const { ctx } = photo, scale = photo.width / W;
    photo.fit();
    picture(ctx, rgb(pixels, W, H), 0, 0, photo.width, photo.height);
    if (picked < 1) return;
    const [r, c] = [Math.floor((picked - 1) / (W / P)), (picked - 1) % (W / P)];
    ctx.lineWidth = 3;
    ctx.strokeStyle = color(root, "--dnnl-class-token");
    ctx.strokeRect(c * P * scale + 1.5, r * P * scale + 1.5, P * scale - 3, P * scale - 3);
  }

  /** Show a matrix whose first row is token `first`; `inside` says what its rows are made of. */
  function drawPanel(panel, m, name, first, picked, inside) {
    panel.matrix = m;
    panel.first = first;
    panel.root.style.visibility = m ? "" : "hidden";
    const shape = m ? `(1, ${m.rows}, ${m.cols})` : "";
    panel.text.replaceChildren(name, h("br"), h("code", {}, shape));
    panel.view.name(t.panel(name, shape));
    panel.view.fit();
    if (!m) return;
    const { ctx, width, height } = panel.view, range = inside === "kept" ? { min: 0, max: 1 } : { min: -RANGE, max: RANGE };
    const tall = height / Math.max(m.rows, N); // one row alone is as tall as among the others
    colormap(ctx, m.values, m.rows, m.cols, { ...range, x: GUTTER, w: width - GUTTER, h: tall * m.rows });
    for (let i = 0; i < m.rows; i++) {
      const colors = [];
      if (inside !== "table" && inside !== "kept") colors.push(first + i ? "--dnnl-patch" : "--dnnl-class-token");
      if (inside === "table" || inside === "sum" || (inside === "sum but 0" && first + i)) colors.push("--dnnl-position");
      colors.forEach((name, k) => {
        ctx.fillStyle = color(root, name);
        ctx.fillRect((k * (GUTTER - 3)) / colors.length, i * tall + 0.5, (GUTTER - 3) / colors.length, tall - 1);
      });
    }
    const at = picked - first;
    if (at < 0 || at >= m.rows) return;
    for (const [line, style] of [[4, "#fff"], [2, "#000"]]) {
      ctx.lineWidth = line;
      ctx.strokeStyle = style;
      ctx.strokeRect(GUTTER, Math.max(1, at * tall - 1), width - GUTTER - 1, Math.min(tall + 2, height - at * tall));
    }
  }

  function draw() {
    const order_ = model.get("order"), names = sequenceOf(order_), step = model.get("step");
    const name = names[step], picked = model.get("token"), { steps, end: z } = results[order_];
    drawSteps(names, step);
    order.set(order_);
    token.set(picked);
    drawPhoto(picked);
    const now = steps[name], earlier = steps[names[step - 1]];
    const first = (m) => (m && m.rows > N ? 0 : 1);
    const inside = (until) => {
      const at = names.indexOf("positions");
      if (at > until) return "content";
      // In the wrong order the class token gets no position.
      return order_ === "sliced" ? "sum but 0" : "sum";
    };
    const used = now?.used;
    const label = name === "class_token" && order_ === "positions_first" ? t.folded : t.parameter[name];
    drawPanel(panels[0], earlier?.after ?? null, t.before, first(earlier?.after), picked, inside(step - 1));
    const usedFirst = name === "class_token" ? 0 : order_ === "sliced" && name === "positions" ? 1 : first(used);
    drawPanel(panels[1], used ?? null, label ?? "", usedFirst, picked,
      name === "dropout" ? "kept" : name === "positions" ? "table" : order_ === "positions_first" ? "sum" : "content");
    drawPanel(panels[2], now?.after ?? null, t.steps[name], first(now?.after), picked, inside(step));

    const dropped = parts.kept.values.reduce((n, v) => n + (v ? 0 : 1), 0);
    says.say(t.says[name === "positions" && order_ === "sliced" ? "sliced" : name]({ ...sizes, rows: now?.after.rows, dropped, total: parts.kept.values.length }));
    const i = picked - first(now?.after), cols = W / P;
    const whose = picked === 0 ? t.row.class : t.row.patch(picked, Math.floor((picked - 1) / cols), (picked - 1) % cols);
    if (now && i < 0) row.textContent = t.absent;
    else {
      const some = now ? [...now.after.values.subarray(i * now.after.cols, i * now.after.cols + 4)].map((v) => decimal(v)).join(", ") : "";
      row.textContent = now ? t.starts(whose, some) : whose;
    }
    const right = results.class_first.end, wrong = new Set();
    let most = 0;
    z.values.forEach((v, k) => {
      const gap = Math.abs(v - right.values[k]);
      if (gap > 0) wrong.add(Math.floor(k / D));
      most = Math.max(most, gap);
    });
    end.textContent = order_ === "class_first" ? "" : wrong.size ? t.differs({ rows: wrong.size, of: N + 1, most: most.toFixed(2) }) : t.same;
    why.textContent = t.why[order_];
  }

  const redraw = schedule(draw);
  const stops = [listen(model, ["step", "order", "token"], redraw), onTheme(redraw)];
  redraw();
  return () => { redraw.cancel(); says.stop(); for (const stop of stops) stop(); root.remove(); };
}

export default { render };
