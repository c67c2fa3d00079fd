/* TokenGradient: the gradients of a batch add up in the one class token. */

const STYLE = `
.dnnl-gradients {
  display: grid;
  gap: 0.8rem 1.2rem;
}

@container (min-width: 620px) {
  .dnnl-gradients {
    grid-template-columns: 1.25fr 1fr;
  }
}

.dnnl-explorer .dnnl-flows fieldset {
  border: 0;
  margin: 0;
  min-width: 0;
  padding: 0;
}

.dnnl-flow {
  align-items: center;
  display: grid;
  gap: 0 0.6rem;
  grid-template-columns: 8.6rem minmax(0, 1fr) 2.6em;
  min-height: 44px;
}

.dnnl-flow label {
  align-items: center;
  cursor: pointer;
  display: flex;
  gap: 0.45rem;
  min-height: 44px;
}

.dnnl-flow input {
  accent-color: var(--dnnl-patch-ink);
  cursor: pointer;
  height: 20px;
  margin: 0;
  width: 20px;
}

.dnnl-thumbnail {
  height: 32px;
  width: 32px;
}

.dnnl-strip {
  height: 30px;
  image-rendering: pixelated;
  width: 100%;
}

.dnnl-flow output {
  font-variant-numeric: tabular-nums;
  text-align: end;
}

.dnnl-off .dnnl-strip,
.dnnl-off .dnnl-thumbnail {
  opacity: 0.25;
}

.dnnl-total {
  border-top: 2px solid var(--dnnl-class-ink);
  color: var(--dnnl-class-ink);
  font-weight: 700;
}

.dnnl-copies {
  display: flex;
  gap: 3px;
}

.dnnl-row {
  background: var(--dnnl-class-token);
  border: 1.5px solid var(--dnnl-class-token);
  flex: 0 1 44px;
  height: 12px;
}

.dnnl-view {
  background: none;
  border-style: dashed;
}

.dnnl-explorer .dnnl-memory {
  font-size: 0.9rem;
  margin-top: 0.3rem;
  min-height: 3em;
}

@container (max-width: 400px) {
  .dnnl-flow {
    grid-template-columns: minmax(0, 1fr) 2.6em;
    padding-bottom: 0.35rem;
  }

  .dnnl-flow .dnnl-strip {
    grid-column: 1 / -1;
    grid-row: 2;
    height: 22px;
  }
}
`;

const TEXT = {
  en: {
    name: "Gradients that flow into one class token",
    loss: "Loss of the batch",
    sum: "sum",
    mean: "mean",
    copies: "Copies of the token by",
    images: "Images in the batch",
    include: (name) => `${name} in the batch`,
    names: { cat: "cat", coffee: "coffee", rocket: "rocket", astronaut: "astronaut", retina: "retina", admiral: "admiral" },
    strip: (name, length) => `gradient of ${name}: 64 numbers, length ${length}`,
    total: "token",
    totalStrip: (length) => `gradient that the token receives: 64 numbers, length ${length}`,
    plane: (n, length) => `${n} arrows, one after another, from the origin to their sum; the token's gradient has length ${length}`,
    memory: {
      expand: (b) => `expand: ${b} views of one row in memory, 256 bytes. `,
      repeat: (b) => `repeat: ${b} rows in memory, ${256 * b} bytes. `,
    },
    same: "The gradient is the same by either.",
    says: (b, how, length) => `A batch of ${b}: the token receives the ${how}, of length ${length}.`,
    one: "A batch needs at least one image.",
    caption: (share) => `Real gradients from a small untrained ViT, one photograph a row: each strip holds the 64 numbers that image adds (purple: negative, orange: positive). Switch images on and off. The arrows show the same addition in a plane that keeps ${share} % of it. Then change the sum to a mean: same direction, other length. Then expand to repeat: nothing changes but memory.`,
  },
  zh: {
    name: "汇入同一个类别标记的梯度",
    loss: "批量的损失",
    sum: "求和",
    mean: "取平均",
    copies: "复制类别标记的方式",
    images: "批量中的图像",
    include: (name) => `批量中包含${name}`,
    names: { cat: "猫", coffee: "咖啡", rocket: "火箭", astronaut: "宇航员", retina: "视网膜", admiral: "海军将领" },
    strip: (name, length) => `${name}的梯度：64 个数，长度 ${length}`,
    total: "类别标记",
    totalStrip: (length) => `类别标记收到的梯度：64 个数，长度 ${length}`,
    plane: (n, length) => `${n} 个箭头首尾相接，从原点指向它们的和；类别标记的梯度长度为 ${length}`,
    memory: {
      expand: (b) => `expand：内存中一行，${b} 个视图，256 字节。`,
      repeat: (b) => `repeat：内存中 ${b} 行，${256 * b} 字节。`,
    },
    same: "两种方式得到的梯度相同。",
    says: (b, how, length) => `批量大小 ${b}：类别标记收到的是${how === "sum" ? "梯度之和" : "梯度的平均"}，长度 ${length}。`,
    one: "批量里至少要有一幅图像。",
    caption: (share) => `这些都是真实的梯度，来自一个未训练的小 ViT，每行一张照片：色条是这幅图像贡献的 64 个数（紫色为负，橙色为正）。把图像一幅幅关掉、打开看看。箭头在一个平面上画出同样的加法，这个平面保留了其中的 ${share}%。再把求和换成取平均：方向不变，长度改变。最后把 expand 换成 repeat：除了内存，什么都没变。`,
  },
};

const SIDE = 32, DIM = 64;
// purple, white, orange: matplotlib's PuOr, reversed
const DIVERGING = ["2d004b", "8073ac", "f7f7f7", "e08214", "7f3b08"]
  .map((c) => [0, 2, 4].map((i) => parseInt(c.slice(i, i + 2), 16)));

/** The colour of t in [-1, 1]. */
function diverging(t) {
  const x = (Math.min(1, Math.max(-1, t)) + 1) * 2, i = Math.min(3, Math.floor(x));
  return [0, 1, 2].map((c) => Math.round(DIVERGING[i][c] + (x - i) * (DIVERGING[i + 1][c] - DIVERGING[i][c])));
}

const norm = (v) => Math.hypot(...v);

/** A heat strip of 64 numbers. */
function strip() {
  const root = h("canvas", { role: "img", class: "dnnl-strip", width: DIM, height: 1 });
  const ctx = root.getContext("2d"), image = new ImageData(DIM, 1);
  const show = (values, top, label) => {
    values.forEach((v, i) => image.data.set([...diverging(v / top), 255], 4 * i));
    ctx.putImageData(image, 0, 0);
    root.setAttribute("aria-label", label);
  };
  return { root, show };
}

function arrow(ctx, [x0, y0], [x1, y1], width) {
  const angle = Math.atan2(y1 - y0, x1 - x0), head = Math.min(4 + 3 * width, Math.hypot(x1 - x0, y1 - y0));
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1 - Math.cos(angle) * head * 0.8, y1 - Math.sin(angle) * head * 0.8);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  for (const side of [-0.42, 0.42]) ctx.lineTo(x1 - head * Math.cos(angle + side), y1 - head * Math.sin(angle + side));
  ctx.fill();
}

function render({ model, el }) {
  const t = texts(TEXT, language(model, el));
  const names = model.get("_names"), pixels = bytes(model, "_pixels"), size = SIDE * SIDE * 3;
  const all = halfToFloat(bytes(model, "_gradients")), basis = halfToFloat(bytes(model, "_plane"));
  const gradients = names.map((_, i) => all.slice(i * DIM, (i + 1) * DIM));
  const photographs = names.map((_, i) => rgb(pixels.subarray(i * size, (i + 1) * size), SIDE, SIDE));
  const flat = (g) => [0, 1].map((axis) => g.reduce((s, v, i) => s + v * basis[axis * DIM + i], 0));
  const arrows = gradients.map(flat);
  const share = arrows.flat().reduce((s, v) => s + v * v, 0) / all.reduce((s, v) => s + v * v, 0);

  const box = frame(el, { label: t.name, room: model.get("_room") }), says = live();
  box.root.append(h("style", {}, STYLE));
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
    const thumbnail = h("canvas", { width: SIDE, height: SIDE, class: "dnnl-thumbnail", "aria-hidden": "true" });
    thumbnail.getContext("2d").putImageData(photographs[i], 0, 0);
    const tick = h("input", { type: "checkbox", "aria-label": t.include(t.names[name]) });
    tick.addEventListener("change", () => {
      const chosen = names.filter((_, j) => rows[j].tick.checked);
      if (chosen.length) return put(model, { images: chosen });
      tick.checked = true;
      says.say(t.one);
    });
    const own = strip(), length = h("output", {}, norm(gradients[i]).toFixed(2));
    const root = h("div", { class: "dnnl-flow" },
      h("label", {}, tick, thumbnail, h("span", {}, t.names[name])), own.root, length);
    return { root, tick, own };
  });
  const total = strip(), totalLength = h("output", {});
  const totalRow = h("div", { class: "dnnl-flow dnnl-total" },
    h("span", {}, h("span", { "aria-hidden": "true" }, "Σ "), t.total), total.root, totalLength);
  const sigma = totalRow.querySelector("[aria-hidden]");
  const copies = h("p", { class: "dnnl-copies", "aria-hidden": "true" });
  const memory = h("p", { class: "dnnl-memory" });

  const plane = canvas(320, 290, "");
  box.stage.append(
    h("div", { class: "dnnl-flows" },
      h("fieldset", {}, h("legend", { class: "dnnl-hidden" }, t.images), rows.map((r) => r.root)), totalRow),
    h("div", { class: "dnnl-sum" }, plane.root, copies, memory));
  box.stage.classList.add("dnnl-gradients");
  box.stage.after(says.root);

  // The plane shows every sum that can occur: from all that points left to all that points right.
  const reach = [0, 1].map((axis) => [Math.min, Math.max].map((pick) => arrows.reduce((s, a) => s + pick(0, a[axis]), 0)));
  const scale = Math.min(...reach.map(([low, high], axis) => ([plane.width, plane.height][axis] - 40) / (high - low)));
  const at = ([x, y]) => [
    plane.width / 2 + (x - (reach[0][0] + reach[0][1]) / 2) * scale,
    plane.height / 2 - (y - (reach[1][0] + reach[1][1]) / 2) * scale,
  ];

  const draw = () => {
    const chosen = names.map((name, i) => i).filter((i) => model.get("images").includes(names[i]));
    const b = chosen.length, mean = model.get("reduction") === "mean", how = model.get("spread");
    reduction.set(model.get("reduction"));
    spread.set(how);
    const sum = gradients[0].map((_, d) => chosen.reduce((s, i) => s + gradients[i][d], 0) / (mean ? b : 1));
    const top = Math.max(...all.map(Math.abs), ...sum.map(Math.abs)), length = norm(sum).toFixed(2);
    rows.forEach(({ root, tick, own }, i) => {
      tick.checked = chosen.includes(i);
      root.classList.toggle("dnnl-off", !tick.checked);
      own.show(gradients[i], top, t.strip(t.names[names[i]], norm(gradients[i]).toFixed(2)));
    });
    total.show(sum, top, t.totalStrip(length));
    totalLength.textContent = length;
    sigma.textContent = mean ? `1/${b} Σ ` : "Σ ";

    copies.replaceChildren(...chosen.map((_, i) =>
      h("span", { class: how === "repeat" || i === 0 ? "dnnl-row" : "dnnl-row dnnl-view" })));
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

export default { render };
