/* ShapeFlow: every shape of the input module, its parameters, and what does not fit. */

const STYLE = `
.dnnl-sizes .dnnl-controls {
  display: grid;
  gap: 0.3rem 1.2rem;
  grid-template-columns: repeat(auto-fill, minmax(min(12rem, 100%), 1fr));
}

.dnnl-sizes .dnnl-select {
  grid-column: 1 / -1;
}

.dnnl-shapes {
  display: grid;
  gap: 0.8rem 1.4rem;
}

@container (min-width: 620px) {
  .dnnl-shapes {
    grid-template-columns: 1fr 1.6fr;
  }
}

.dnnl-shapes > .dnnl-canvas {
  align-self: start;
  justify-self: center;
}

.dnnl-explorer .dnnl-steps {
  list-style: none;
  margin: 0;
  padding: 0;
}

.dnnl-explorer .dnnl-steps li {
  border-inline-start: 4px solid var(--dnnl-line);
  display: flex;
  flex-wrap: wrap;
  gap: 0 0.8rem;
  justify-content: space-between;
  margin: 0;
  padding: 0.2rem 0 0.2rem 0.7rem;
}

.dnnl-explorer .dnnl-steps :is(.patch, .class, .position) {
  border-color: var(--dnnl-patch);
}

.dnnl-explorer .dnnl-steps .class {
  border-color: var(--dnnl-class-token);
}

.dnnl-explorer .dnnl-steps .position {
  border-color: var(--dnnl-position);
}

.dnnl-steps .dnnl-shape {
  font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, "Liberation Mono", monospace;
  font-size: 0.9em;
}

.dnnl-steps .dnnl-weighs {
  color: var(--dnnl-muted);
  flex: 1 0 100%;
  font-size: 0.86rem;
}

.dnnl-explorer .dnnl-refusal {
  border: 1px solid var(--dnnl-class-ink);
  border-radius: 0.35rem;
  margin-top: 0.4rem;
  padding: 0.5rem 0.7rem;
}

.dnnl-refusal code {
  background: none;
  border: 0;
  color: var(--dnnl-class-ink);
  display: block;
  font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, "Liberation Mono", monospace;
  font-size: 0.86rem;
  overflow-wrap: anywhere;
  padding: 0 0 0.4rem;
}

.dnnl-parts {
  display: flex;
  height: 18px;
  margin-top: 0.6rem;
}

.dnnl-shapes [hidden] {
  display: none;
}

.dnnl-parts span {
  min-width: 2px;
}
`;

const TEXT = {
  en: {
    name: "Shapes from the image to the encoder",
    preset: "Sizes of",
    presets: {
      own: "your own choice", b16: "ViT-B/16 at 224", b384: "ViT-B/16 at 384", l16: "ViT-L/16 at 224",
      h14: "ViT-H/14 at 224", deit: "DeiT-B, distilled", registers: "ViT-B/16, 4 registers",
      chapter: "the chapter’s model", odd: "an image that does not fit",
    },
    height: "Height H", width: "Width W", patch_size: "Patch side P", in_channels: "Channels C",
    embed_dim: "Token width D", num_prefix_tokens: "Prefix tokens",
    image: "image",
    patches: "flat patches",
    tokens: "tokens X",
    prefix: (p) => (p === 0 ? "no prefix token" : p === 1 ? "with class token" : `with ${p} prefix tokens`),
    sequence: "with positions: Z",
    attention: "attention, each head",
    parameters: (formula, n) => `${formula} = ${n} parameters`,
    count: (rows, columns, n) => `N = ${rows} · ${columns} = ${n}`,
    pairs: (t, n) => `${t}² = ${n} weights`,
    parts: "Shares of the parameters: projection (blue), prefix (orange), positions (green).",
    wrong: "ShapeError",
    conv: (rows, columns, down, across, lost, share) => `A bare Conv2d would go on with a grid of ${rows} × ${columns} and never read ${[down && `${down} rows`, across && `${across} columns`].filter(Boolean).join(" and ")}: ${lost} pixels, ${share} % of the image.`,
    small: "Even a bare Conv2d refuses: its kernel is larger than the image.",
    fits: (size) => ` ${size} would fit.`,
    picture: (h, w, p, rows, columns) => `An image of ${h} by ${w} pixels under patches of ${p} by ${p}: ${rows} rows and ${columns} columns of whole patches.`,
    says: (n, t, d, total) => `${n} patches; the encoder reads ${t} tokens of width ${d}. The input module has ${total} parameters.`,
    refuses: "These sizes do not fit: the module refuses them.",
    caption: "Halve P and watch N and the attention. Double D and watch the parameters. Make the image one pixel larger: what lies outside the grid is what a strided convolution would drop in silence.",
  },
  zh: {
    name: "从图像到编码器的形状",
    preset: "预设",
    presets: {
      own: "自定", b16: "ViT-B/16，224", b384: "ViT-B/16，384", l16: "ViT-L/16，224",
      h14: "ViT-H/14，224", deit: "DeiT-B，蒸馏", registers: "ViT-B/16，4 个寄存器 token",
      chapter: "本章的模型", odd: "不能整除的图像",
    },
    height: "高 H", width: "宽 W", patch_size: "图像块边长 P", in_channels: "通道数 C",
    embed_dim: "token 宽度 D", num_prefix_tokens: "前缀 token 数",
    image: "图像",
    patches: "展平的图像块",
    tokens: "token X",
    prefix: (p) => (p === 0 ? "没有前缀 token" : p === 1 ? "加上类别标记" : `加上 ${p} 个前缀 token`),
    sequence: "加上位置嵌入：Z",
    attention: "每个头的注意力",
    parameters: (formula, n) => `${formula} = ${n} 个参数`,
    count: (rows, columns, n) => `N = ${rows} · ${columns} = ${n}`,
    pairs: (t, n) => `${t}² = ${n} 个权重`,
    parts: "参数占比：投影（蓝）、前缀（橙）、位置嵌入（绿）。",
    wrong: "ShapeError",
    conv: (rows, columns, down, across, lost, share) => `直接用 Conv2d，它会照用 ${rows} × ${columns} 的网格，永远读不到${[down && ` ${down} 行`, across && ` ${across} 列`].filter(Boolean).join("和")}：${lost} 个像素，占图像的 ${share}%。`,
    small: "这一次，直接用 Conv2d 也会报错：卷积核比图像还大。",
    fits: (size) => `${size} 就能整除。`,
    picture: (h, w, p, rows, columns) => `${h} × ${w} 像素的图像，图像块 ${p} × ${p}：完整的图像块有 ${rows} 行 ${columns} 列。`,
    says: (n, t, d, total) => `${n} 个图像块；编码器读入 ${t} 个宽度为 ${d} 的 token。输入模块共有 ${total} 个参数。`,
    refuses: "这些尺寸对不上，模块拒绝接受。",
    caption: "把 P 减半，看 N 和注意力的变化。把 D 加倍，看参数的变化。把图像加大一个像素：网格之外的部分，就是带步长的卷积会悄悄丢掉的像素。",
  },
};

const SIZES = {
  height: [16, 512, 1], width: [16, 512, 1], patch_size: [1, 32, 1],
  in_channels: [1, 13, 1], embed_dim: [8, 1280, 8], num_prefix_tokens: [0, 8, 1],
};
const NAMES = Object.keys(SIZES);
const PRESETS = {
  b16: [224, 224, 16, 3, 768, 1], b384: [384, 384, 16, 3, 768, 1], l16: [224, 224, 16, 3, 1024, 1],
  h14: [224, 224, 14, 3, 1280, 1], deit: [224, 224, 16, 3, 768, 2], registers: [224, 224, 16, 3, 768, 5],
  chapter: [56, 56, 4, 3, 64, 1], odd: [230, 238, 16, 3, 768, 1],
};

const digits = (n) => n.toLocaleString("en-US");
const tuple = (...sizes) => `(${sizes.join(", ")})`;

function render({ model, el }) {
  const t = texts(TEXT, language(model, el));
  const box = frame(el, { label: t.name, room: model.get("_room") }), says = live();
  box.root.append(h("style", {}, STYLE));
  box.root.classList.add("dnnl-sizes");
  box.caption.textContent = t.caption;

  const preset = select({
    label: t.preset,
    options: ["own", ...Object.keys(PRESETS)].map((name) => [name, t.presets[name]]),
    value: "own",
    onchange: (name) => {
      put(model, Object.fromEntries(NAMES.map((size, i) => [size, PRESETS[name][i]])));
    },
  });
  preset.input.options[0].disabled = true; // it is what the sliders say, and cannot be chosen
  const sliders = NAMES.map((name) => {
    const [min, max, step] = SIZES[name];
    const oninput = (v) => put(model, { [name]: v });
    return slider({ label: t[name], min, max, step, value: model.get(name), oninput });
  });
  box.controls.append(preset.root, ...sliders.map((s) => s.root));

  const image = canvas(240, 240, "");
  const steps = h("ol", { class: "dnnl-steps" });
  const refusal = h("div", { class: "dnnl-refusal" });
  const parts = h("div", { class: "dnnl-parts", role: "img", "aria-label": t.parts });
  box.stage.append(image.root, h("div", {}, steps, refusal, parts));
  box.stage.classList.add("dnnl-shapes");
  box.stage.after(says.root);

  const step = (kind, name, shape, ...weighs) => h("li", { class: kind },
    h("span", {}, name), h("span", { class: "dnnl-shape" }, shape),
    weighs.map((w) => h("span", { class: "dnnl-weighs" }, w)));

  /** The image to scale under the grid of whole patches; what is left over is filled. */
  const drawImage = (H, W, P, rows, columns) => {
    image.fit();
    image.name(t.picture(H, W, P, rows, columns));
    const { ctx } = image, unit = (image.width - 4) / Math.max(H, W);
    ctx.setTransform(ctx.getTransform().translate((image.width - W * unit) / 2, (image.height - H * unit) / 2));
    ctx.fillStyle = color(box.root, "--dnnl-ink");
    ctx.fillRect(0, 0, W * unit, H * unit);
    ctx.fillStyle = color(box.root, "--dnnl-raised");
    ctx.fillRect(0, 0, columns * P * unit, rows * P * unit);
    ctx.strokeStyle = color(box.root, "--dnnl-patch");
    ctx.lineWidth = Math.min(1, (P * unit) / 5); // (a fine grid is a fine one)
    ctx.beginPath();
    for (let i = 0; i <= rows; i++) { ctx.moveTo(0, i * P * unit); ctx.lineTo(columns * P * unit, i * P * unit); }
    for (let j = 0; j <= columns; j++) { ctx.moveTo(j * P * unit, 0); ctx.lineTo(j * P * unit, rows * P * unit); }
    ctx.stroke();
    ctx.strokeStyle = color(box.root, "--dnnl-line");
    ctx.lineWidth = 1;
    ctx.strokeRect(0, 0, W * unit, H * unit);
  };

  const draw = () => {
    const values = NAMES.map((name) => model.get(name)), [H, W, P, C, D, prefix] = values;
    sliders.forEach((s, i) => s.set(values[i]));
    preset.set(Object.keys(PRESETS).find((name) => PRESETS[name].every((v, i) => v === values[i])) ?? "own");
    const [rows, columns] = [Math.floor(H / P), Math.floor(W / P)];
    const [down, across] = [H - rows * P, W - columns * P], fits = !down && !across;
    drawImage(H, W, P, rows, columns);

    const N = rows * columns, T = prefix + N;
    const weighs = [(C * P * P + 1) * D, prefix * D, T * D], total = weighs.reduce((a, b) => a + b);
    refusal.hidden = fits;
    parts.hidden = !fits;
    const first = step("", t.image, tuple("B", C, H, W));
    if (!fits) {
      steps.replaceChildren(first);
      const lost = H * W - rows * columns * P * P;
      const whole = (up) => `${up(H / P) * P} × ${up(W / P) * P}`;
      const sizes = [...new Set([N ? whole(Math.floor) : whole(Math.ceil), whole(Math.ceil)])];
      refusal.replaceChildren(
        h("code", {}, `${t.wrong}: Expected an image size divisible by the patch size ${P}×${P}, but got ` +
          `${H}×${W} (height × width): crop, pad or resize first.`),
        h("p", {}, N ? t.conv(rows, columns, down, across, digits(lost), ((100 * lost) / (H * W)).toFixed(1)) : t.small,
          t.fits(sizes.join(" / "))));
      return says.say(t.refuses);
    }
    steps.replaceChildren(
      first,
      step("patch", t.patches, tuple("B", N, C * P * P), t.count(rows, columns, N)),
      step("patch", t.tokens, tuple("B", N, D), t.parameters(`(${C} · ${P}² + 1) · ${D}`, digits(weighs[0]))),
      step("class", t.prefix(prefix), tuple("B", T, D), prefix ? t.parameters(`${prefix} · ${D}`, digits(weighs[1])) : null),
      step("position", t.sequence, tuple("B", T, D), t.parameters(`${T} · ${D}`, digits(weighs[2]))),
      step("", t.attention, tuple("B", T, T), t.pairs(T, digits(T * T))));
    parts.replaceChildren(...["--dnnl-patch", "--dnnl-class-token", "--dnnl-position"]
      .map((name, i) => h("span", { style: { flexGrow: weighs[i], background: `var(${name})`, display: weighs[i] ? "" : "none" } })));
    says.say(t.says(digits(N), digits(T), D, digits(total)));
  };
  const redraw = schedule(draw);
  redraw();
  const stops = [listen(model, NAMES, redraw), onTheme(redraw), redraw.cancel, says.stop];
  return () => {
    stops.forEach((stop) => stop());
    box.root.remove();
  };
}

export default { render };
