/* What EraseAndReconstruct and ClassAttention share: photographs for the model of vit.js to read. */

const LIVE_TEXT = {
  en: {
    names: {},                               // they are English already
    photograph: "Photograph",
    own: "your own image",
    choose: "Your image…",
    unread: "That file is not an image that the browser can read.",
  },
  zh: {
    names: {
      cat: "猫", coffee: "咖啡", rocket: "火箭", astronaut: "宇航员", galaxies: "星系",
      retina: "视网膜", tissue: "组织切片", temple: "寺庙", flower: "大丽花", admiral: "海军将领",
    },
    photograph: "照片",
    own: "你自己的图片",
    choose: "换成你的图片……",
    unread: "这个文件不是浏览器能读的图片。",
  },
};

const LIVE_STYLE = `
.dnnl-explorer .dnnl-live-views { display: grid; gap: 0.7rem 1rem; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); align-items: end; justify-items: center; margin-bottom: 0.5rem; }
.dnnl-live-views > .dnnl-live-wide { grid-column: 1 / -1; }
@container (min-width: 560px) {
  .dnnl-explorer .dnnl-live-views { grid-template-columns: repeat(3, minmax(0, 1fr)); }
  .dnnl-live-views > .dnnl-live-wide { grid-column: auto; }
}
.dnnl-explorer .dnnl-live-view { margin: 0; max-width: 100%; min-width: 0; width: 280px; }
.dnnl-explorer .dnnl-live-view figcaption { color: var(--dnnl-ink); font-size: 0.9rem; font-weight: 600; line-height: 1.3; padding-bottom: 0.25rem; }
.dnnl-live .dnnl-controls { gap: 0.4rem 0.6rem; }
.dnnl-live .dnnl-controls .dnnl-slider { flex: 1 1 12rem; max-width: 20rem; }
.dnnl-live-canvas { cursor: crosshair; }
.dnnl-live-over { outline: 3px dashed var(--dnnl-focus); outline-offset: 3px; }
.dnnl-live-bars { display: grid; font-variant-numeric: tabular-nums; gap: 0.1rem 0.6rem; grid-template-columns: max-content minmax(0, 1fr) max-content; line-height: 1.35; margin: 0; }
.dnnl-live-bars > * { display: contents; }
.dnnl-live-bars dt, .dnnl-live-bars dd { color: inherit; font-weight: inherit; margin: 0; padding: 0; }
.dnnl-live-bars .dnnl-live-shown { font-weight: 700; }
.dnnl-live-bar { align-self: center; background: var(--dnnl-raised); height: 0.8rem; }
.dnnl-live-bar > span { background: var(--dnnl-line); display: block; height: 100%; }
.dnnl-live-shown .dnnl-live-bar > span { background: var(--dnnl-patch); }
`;

/** The ChapterVit of a widget, shared by its views. */
const liveModels = new WeakMap();
function liveModel(model) {
  if (!liveModels.has(model)) {
    liveModels.set(model, new ChapterVit(bytes(model, "_weights"), model.get("_index")));
  }
  return liveModels.get(model);
}

/** The shown image: its bytes (H · W · 3), and in the order of a tensor (3, H, W) in [0, 1]. */
function shownImage(model, [height, width]) {
  const size = 3 * height * width, name = model.get("photograph");
  const at = model.get("_names").indexOf(name) * size;
  const data = at < 0 ? bytes(model, "own") : bytes(model, "_crops").subarray(at, at + size);
  const image = new Float32Array(size);
  for (let i = 0; i < height * width; i++)
    for (let c = 0; c < 3; c++) image[c * height * width + i] = data[3 * i + c] / 255;
  return { data, image, pixels: rgb(data, width, height) };
}

/** Read an image file: its largest middle part of the right shape, as H · W · 3 bytes. */
async function readImage(file, [height, width]) {
  let image = await createImageBitmap(file);
  const scale = Math.min(image.height / height, image.width / width);
  let [w, t] = [width * scale, height * scale];
  let [x, y] = [(image.width - w) / 2, (image.height - t) / 2];
  for (;;) {                                 // by halves: one large step would skip pixels
    const [nw, nt] = [Math.max(width, Math.ceil(w / 2)), Math.max(height, Math.ceil(t / 2))];
    const sheet = h("canvas", { width: nw, height: nt });
    const ctx = sheet.getContext("2d", { willReadFrequently: true });
    ctx.fillStyle = "#fff";                  // under what is transparent
    ctx.fillRect(0, 0, nw, nt);
    ctx.imageSmoothingQuality = "high";
    ctx.drawImage(image, x, y, w, t, 0, 0, nw, nt);
    image.close?.();
    [image, w, t, x, y] = [sheet, nw, nt, 0, 0];
    if (nw === width && nt === height) {
      const { data } = ctx.getImageData(0, 0, width, height);
      return Uint8Array.from({ length: 3 * width * height }, (_, i) => data[4 * Math.floor(i / 3) + (i % 3)]);
    }
  }
}

/** Controls to pick a photograph, or to choose or drop an image of one's own; `fail(text)` on no image. */
function photographs(model, root, lang, size, fail) {
  root.classList.add("dnnl-live");
  const t = texts(LIVE_TEXT, lang), named = (name) => t.names[name] ?? name;
  const options = model.get("_names").map((name) => [name, named(name)]);
  const list = select({
    label: t.photograph, options, value: model.get("photograph"),
    onchange: (photograph) => put(model, { photograph }),
  });
  const show = () => {
    const name = model.get("photograph");
    if (name === "own" && options.at(-1)[0] !== "own") {
      options.push(["own", t.own]);
      list.input.append(h("option", { value: options.length - 1 }, t.own));
    }
    list.set(name);
  };
  const read = async (file) => {
    if (!file) return;
    try {
      const data = await readImage(file, size);
      put(model, { own: new DataView(data.buffer), photograph: "own" });
    } catch {
      fail(t.unread);
    }
  };
  const input = h("input", { type: "file", accept: "image/*", hidden: true, onchange: () => { read(input.files[0]); input.value = ""; } });
  const over = (on) => (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    root.classList.toggle("dnnl-live-over", on);
  };
  root.addEventListener("dragover", over(true));
  root.addEventListener("dragleave", over(false));
  root.addEventListener("drop", (event) => { over(false)(event); read(event.dataTransfer?.files[0]); });
  show();
  return { roots: [list.root, button(t.choose, () => input.click()), input], show, named };
}

/** A titled canvas of rows × columns patches, drawn in patches' units of `step`. */
function patchView(title, [rows, columns], step = 20) {
  const view = canvas(columns * step, rows * step, title);
  const caption = h("figcaption", {}, title);
  const root = h("figure", { class: "dnnl-live-view" }, caption, view.root);
  /** The patch under a pointer, or the nearest: [row, column]. */
  const patchAt = (event) => {
    const [x, y] = view.at(event);
    const clip = (v, n) => Math.min(n - 1, Math.max(0, Math.floor(v / step)));
    return [clip(y, rows), clip(x, columns)];
  };
  return { ...view, view: view.root, root, caption, step, patchAt };
}

/** Draw an image over the whole view. */
function drawImage(view, pixels) {
  view.fit();
  picture(view.ctx, pixels, 0, 0, view.width, view.height);
}

/** Cover the hidden patches of a view by the paper, with a stroke through each. */
function drawHoles(view, root, mask, columns) {
  const { ctx, step } = view;
  ctx.fillStyle = color(root, "--dnnl-raised");
  ctx.strokeStyle = color(root, "--dnnl-line");
  ctx.lineWidth = 1;
  ctx.beginPath();
  mask.forEach((hidden, i) => {
    if (!hidden) return;
    const x = (i % columns) * step, y = Math.floor(i / columns) * step;
    ctx.fillRect(x, y, step, step);
    ctx.moveTo(x + 0.3 * step, y + 0.7 * step);
    ctx.lineTo(x + 0.7 * step, y + 0.3 * step);
  });
  ctx.stroke();
}

/** Outline patches rows × columns from (row, column) so that it shows on any picture. */
function drawFrame(view, root, row, column, rows = 1, columns = 1) {
  const { ctx, step } = view;
  for (const [line, style] of [[5, "#fff"], [2.5, color(root, "--dnnl-class-token")]]) {
    ctx.lineWidth = line;
    ctx.strokeStyle = style;
    ctx.strokeRect(column * step, row * step, columns * step, rows * step);
  }
}

/** Bars with names and values: one line for each entry {name, text, share (0 to 1), shown}. */
function bars(label) {
  const root = h("dl", { class: "dnnl-live-bars", "aria-label": label });
  const set = (entries) => {
    root.replaceChildren(...entries.map(({ name, text, share, shown }) =>
      h("div", { class: shown ? "dnnl-live-shown" : null },
        h("dt", {}, name),
        h("dd", { class: "dnnl-live-bar", "aria-hidden": "true" }, h("span", { style: { width: `${100 * share}%` } })),
        h("dd", {}, text))));
  };
  return { root, set };
}
