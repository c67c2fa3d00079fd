/* What the explorers share. Plain functions: base.py joins this file with an explorer's own. */

/* ---- elements ------------------------------------------------------------------------------- */

/** Make an element: h("button", {class: "x", onclick: f}, "text", child, …). */
function h(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value == null || value === false) continue;
    if (key.startsWith("on")) el.addEventListener(key.slice(2).toLowerCase(), value);
    else if (key === "dataset") Object.assign(el.dataset, value);
    else if (key === "style" && typeof value === "object") Object.assign(el.style, value);
    else el.setAttribute(key, value === true ? "" : value);
  }
  el.append(...children.flat().filter((child) => child != null));
  return el;
}

const unique = () => `dnnl-${Math.random().toString(36).slice(2)}`;

/** The language of the labels: the widget's own, else the page's. */
function language(model, el) {
  const lang = model.get("lang") || el.closest?.("[lang]")?.lang || document.documentElement.lang;
  return lang.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/** The table of texts in one language; TEXT = {en: {…}, zh: {…}}. */
const texts = (TEXT, lang) => TEXT[lang] ?? TEXT.en;

/** The box of an explorer: its controls, what they act on, and a caption that says what to try.
    room = model.get("_room") keeps its height free before it is filled. */
function frame(el, { label = null, room = null } = {}) {
  const controls = h("div", { class: "dnnl-controls" });
  const stage = h("div", { class: "dnnl-stage" });
  const caption = h("p", { class: "dnnl-caption" });
  const root = h("div", { class: "dnnl-explorer", role: "group", "aria-label": label }, controls, stage, caption);
  if (room) ["--dnnl-room-narrow", "--dnnl-room"].forEach((name, i) => root.style.setProperty(name, `${room[i]}px`));
  el.append(root);
  keepKeys(root);
  return { root, controls, stage, caption };
}

/** Keep plain keys for the control that has the focus: JupyterLab takes arrows, letters and Enter for
    its cells before the page sees them (x would cut the cell), unless the focused element says so. */
function keepKeys(root) {
  const mark = (event) => {
    if (!root.isConnected) return window.removeEventListener("keydown", mark, true);
    const plain = !(event.ctrlKey || event.metaKey || event.altKey || event.shiftKey);
    event.target.toggleAttribute?.("data-lm-suppress-shortcuts", plain);
  };
  root.addEventListener("focusin", () => window.addEventListener("keydown", mark, true));
  root.addEventListener("focusout", () => window.removeEventListener("keydown", mark, true));
}

/* ---- controls -------------------------------------------------------------------------------- */

function slider({ label, min, max, step = 1, value, oninput, format = String }) {
  const id = unique();
  const input = h("input", { type: "range", id, min, max, step });
  const output = h("output", { for: id });
  const show = () => {
    output.textContent = format(input.valueAsNumber);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  const set = (v) => { input.value = v; show(); };
  input.addEventListener("input", () => { show(); oninput?.(input.valueAsNumber); });
  set(value);
  const root = h("div", { class: "dnnl-slider" }, h("label", { for: id }, label), output, input);
  return { root, input, output, set };
}

/** A list to choose from; options = [[value, text], …]. */
function select({ label, options, value, onchange }) {
  const id = unique();
  const input = h("select", { id }, options.map(([, text], i) => h("option", { value: i }, text)));
  const set = (v) => { input.selectedIndex = options.findIndex(([o]) => o === v); };
  input.addEventListener("change", () => onchange?.(options[input.selectedIndex][0]));
  set(value);
  return { root: h("div", { class: "dnnl-select" }, h("label", { for: id }, label), input), input, set };
}

/** One of a few, all in sight: a radio group drawn as joined buttons; options = [[value, text], …]. */
function toggle({ label, options, value, onchange }) {
  const name = unique();
  const inputs = options.map(([v]) => h("input", { type: "radio", name, onchange: () => onchange?.(v) }));
  const set = (v) => inputs.forEach((input, i) => { input.checked = options[i][0] === v; });
  set(value);
  const root = h("fieldset", { class: "dnnl-toggle" }, h("legend", {}, label),
    h("div", { class: "dnnl-segments" },
      options.map(([, text], i) => h("label", {}, inputs[i], h("span", {}, text)))));
  return { root, inputs, set };
}

const button = (label, onclick, props = {}) =>
  h("button", { type: "button", class: "dnnl-button", onclick, ...props }, label);

/** A line that says what is shown: at once for the eye, after a pause for a screen reader. */
function live() {
  const seen = h("p", { class: "dnnl-says", "aria-hidden": "true" });
  const heard = h("p", { class: "dnnl-hidden", "aria-live": "polite" });
  let timer = null;
  const say = (text) => {
    seen.textContent = text;
    clearTimeout(timer);
    if (heard.textContent) timer = setTimeout(() => { heard.textContent = text; }, 400);
    else heard.textContent = text;
  };
  return { root: h("div", { class: "dnnl-live" }, seen, heard), say, stop: () => clearTimeout(timer) };
}

/** A number for the reader, with a true minus sign: decimal(-0.5) → "−0.50". */
const decimal = (v, digits = 2) => v.toFixed(digits).replace("-", "−");

/** Act on keys: onKeys(el, {ArrowLeft() {…}, …}). A handler that returns false lets the key pass. */
function onKeys(el, handlers) {
  const listen = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = handlers[event.key];
    if (act && act(event) !== false) event.preventDefault();
  };
  el.addEventListener("keydown", listen);
  return () => el.removeEventListener("keydown", listen);
}

/** Wrap a function so that many calls make one, at the next frame: the first drawing too, when the style
    sheets are there. */
function schedule(fn) {
  let id = 0;
  const later = () => { id ||= requestAnimationFrame(() => { id = 0; fn(); }); };
  later.cancel = () => { cancelAnimationFrame(id); id = 0; };
  return later;
}

/** Listen to several traits; returns what stops it. */
function listen(model, names, fn) {
  for (const name of names) model.on(`change:${name}`, fn);
  return () => { for (const name of names) model.off(`change:${name}`, fn); };
}

/** Set traits as if Python had, and tell Python. */
function put(model, changes) {
  for (const [name, value] of Object.entries(changes)) model.set(name, value);
  model.save_changes();
}

/** Call fn when the page turns light or dark; returns what stops it. */
function onTheme(fn) {
  const watch = new MutationObserver(fn);
  const options = { attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light", "class", "theme"] };
  watch.observe(document.documentElement, options);
  watch.observe(document.body, options);
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", fn);
  return () => { watch.disconnect(); media.removeEventListener("change", fn); };
}

/** A colour of the style sheet: color(root, "--dnnl-patch"). */
const color = (el, name) => getComputedStyle(el).getPropertyValue(name).trim();

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/* ---- pictures --------------------------------------------------------------------------------- */

/** A canvas drawn in units of width × height, sharp on every screen, as wide as there is room. */
function canvas(width, height, label) {
  const root = h("canvas", { role: "img", "aria-label": label, class: "dnnl-canvas" });
  root.style.maxWidth = `${width}px`;
  root.style.aspectRatio = `${width} / ${height}`;
  const ctx = root.getContext("2d");
  /** Size the pixels to the screen's and clear; call before drawing. */
  const fit = () => {
    const ratio = Math.min(3, Math.max(1, window.devicePixelRatio || 1));
    const [w, t] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (root.width !== w || root.height !== t) { root.width = w; root.height = t; }
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
  };
  /** Where a pointer event happened, in the same units. */
  const at = (event) => {
    const box = root.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
  };
  fit();
  return { root, ctx, fit, at, width, height, name: (text) => root.setAttribute("aria-label", text) };
}

// matplotlib's viridis at 0, 1/24, …, 1
const VIRIDIS = (
  "440154 471163 481f71 472d7b 443a83 404688 3b528b 355d8d 31688e 2c728e 287c8e 24868e 21908c " +
  "1f9a8a 20a486 28ae80 35b779 47c06f 5dc963 75d054 8fd744 abdc32 c7e020 e3e418 fde725")
  .split(" ").map((c) => [0, 2, 4].map((i) => parseInt(c.slice(i, i + 2), 16)));

/** The colour [r, g, b] of t in [0, 1]. */
function viridis(t) {
  const x = Math.min(1, Math.max(0, t || 0)) * (VIRIDIS.length - 1);
  const i = Math.min(VIRIDIS.length - 2, Math.floor(x));
  return [0, 1, 2].map((c) => Math.round(VIRIDIS[i][c] + (x - i) * (VIRIDIS[i + 1][c] - VIRIDIS[i][c])));
}

/** Draw pixels (ImageData) enlarged without smoothing. */
function picture(ctx, image, x, y, w, t) {
  const sheet = document.createElement("canvas");
  sheet.width = image.width;
  sheet.height = image.height;
  sheet.getContext("2d").putImageData(image, 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(sheet, x, y, w, t);
}

/** Draw rows × cols numbers as a heat map in the box x, y, w, h; min and max default to theirs. */
function colormap(ctx, values, rows, cols, { min, max, x = 0, y = 0, w = cols, h: t = rows } = {}) {
  let [low, high] = [min ?? Infinity, max ?? -Infinity];
  for (const v of values) {
    if (min == null && v < low) low = v;
    if (max == null && v > high) high = v;
  }
  const image = new ImageData(cols, rows), scale = high > low ? 1 / (high - low) : 0;
  for (let i = 0; i < rows * cols; i++) {
    image.data.set(viridis((values[i] - low) * scale), 4 * i);
    image.data[4 * i + 3] = 255;
  }
  picture(ctx, image, x, y, w, t);
}

/* ---- data --------------------------------------------------------------------------------------- */

/** The bytes of a trait, which arrive as a DataView. */
function bytes(model, name) {
  const data = model.get(name);
  return ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
}

/** Little-endian float16 to float32. */
function halfToFloat(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const out = new Float32Array(view.byteLength >> 1);
  for (let i = 0; i < out.length; i++) {
    const bits = view.getUint16(2 * i, true), exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const size = exponent === 0 ? fraction * 2 ** -24
      : exponent === 31 ? (fraction ? NaN : Infinity)
      : (1 + fraction / 1024) * 2 ** (exponent - 15);
    out[i] = bits & 32768 ? -size : size;
  }
  return out;
}

/** h·w·3 bytes to pixels. */
function rgb(data, w, t) {
  const image = new ImageData(w, t);
  for (let i = 0; i < w * t; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = data[3 * i + c];
    image.data[4 * i + 3] = 255;
  }
  return image;
}

/** The pixels (ImageData) of an image file in a trait; a promise. */
async function decode(data, type = "image/png") {
  const image = await createImageBitmap(new Blob([data], { type }), { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  const sheet = h("canvas", { width: image.width, height: image.height });
  const ctx = sheet.getContext("2d", { willReadFrequently: true });
  ctx.drawImage(image, 0, 0);
  return ctx.getImageData(0, 0, image.width, image.height);
}

