/** @file Photographs for the model to read: the book's, or the reader's own. */

import { button, select } from "../lib/controls.js";
import { h } from "../lib/dom.js";
import { rgb } from "../lib/draw.js";
import { bytes, put } from "../lib/model.js";
import { ChapterVit } from "./vit.js";

/** @import { Model } from "../lib/types.d.ts" */
/** @typedef {typeof import("./en.js").default} LiveText */

/** @type {WeakMap<Model, ChapterVit>} */
const models = new WeakMap();

/**
 * The ChapterVit of a widget, shared by its views.
 *
 * @param {Model} model
 */
export function liveModel(model) {
  let found = models.get(model);
  if (!found) {
    found = new ChapterVit(bytes(model, "_weights"), model.get("_index"));
    models.set(model, found);
  }
  return found;
}

/**
 * The shown image: in the order of a tensor (3, H, W) in [0, 1], and its pixels.
 *
 * @param {Model} model
 * @param {[number, number]} size
 */
export function shownImage(model, [height, width]) {
  const size = 3 * height * width, name = model.get("photograph");
  const at = model.get("_names").indexOf(name) * size;
  const data = at < 0 ? bytes(model, "own") : bytes(model, "_crops").subarray(at, at + size);
  const image = new Float32Array(size);
  for (let i = 0; i < height * width; i++) {
    for (let c = 0; c < 3; c++) image[c * height * width + i] = data[3 * i + c] / 255;
  }
  return { image, pixels: rgb(data, width, height) };
}

/**
 * Read an image file: its largest middle part of the right shape, as H · W · 3 bytes.
 *
 * @param {File} file
 * @param {[number, number]} size
 */
async function readImage(file, [height, width]) {
  /** @type {ImageBitmap | HTMLCanvasElement} */
  let image = await createImageBitmap(file);
  const scale = Math.min(image.height / height, image.width / width);
  let [w, t] = [width * scale, height * scale];
  let [x, y] = [(image.width - w) / 2, (image.height - t) / 2];
  for (;;) { // by halves, because one large step would skip pixels
    const nw = Math.max(width, Math.ceil(w / 2)), nt = Math.max(height, Math.ceil(t / 2));
    const sheet = h("canvas", { width: nw, height: nt });
    const ctx = /** @type {CanvasRenderingContext2D} */ (
      sheet.getContext("2d", { willReadFrequently: true })
    );
    ctx.fillStyle = "#fff"; // under what is transparent
    ctx.fillRect(0, 0, nw, nt);
    ctx.imageSmoothingQuality = "high";
    ctx.drawImage(image, x, y, w, t, 0, 0, nw, nt);
    if ("close" in image) image.close();
    [image, w, t, x, y] = [sheet, nw, nt, 0, 0];
    if (nw === width && nt === height) {
      const { data } = ctx.getImageData(0, 0, width, height);
      const length = 3 * width * height;
      return Uint8Array.from({ length }, (_, i) => data[4 * Math.floor(i / 3) + (i % 3)]);
    }
  }
}

/**
 * Controls to pick a photograph, or to choose or drop an image of one's own.
 *
 * @param {object} options
 * @param {Model} options.model
 * @param {HTMLElement} options.root the explorer, on which a file can be dropped
 * @param {LiveText} options.text
 * @param {[number, number]} options.size of the images
 * @param {(text: string) => void} options.fail is called for a file that is not an image
 */
export function photographs({ model, root, text: t, size, fail }) {
  root.classList.add("dnnl-live");
  const named = (/** @type {string} */ name) => t.names[name] ?? name;
  /** @type {[string, string][]} */
  const options = model.get("_names").map((/** @type {string} */ name) => [name, named(name)]);
  const list = select({
    label: t.photograph,
    options,
    value: model.get("photograph"),
    onchange: (photograph) => put(model, { photograph }),
  });
  const show = () => {
    const name = model.get("photograph");
    if (name === "own" && options.at(-1)?.[0] !== "own") {
      options.push(["own", t.own]);
      list.input.append(h("option", { value: options.length - 1 }, t.own));
    }
    list.set(name);
  };
  const read = async (/** @type {File | undefined} */ file) => {
    if (!file) return;
    try {
      const data = await readImage(file, size);
      put(model, { own: new DataView(data.buffer), photograph: "own" });
    } catch {
      fail(t.unread);
    }
  };
  const input = h("input", {
    type: "file",
    accept: "image/*",
    hidden: true,
    onchange: () => {
      read(input.files?.[0]);
      input.value = "";
    },
  });
  const over = (/** @type {boolean} */ on) => (/** @type {DragEvent} */ event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    root.classList.toggle("dnnl-live-over", on);
  };
  root.addEventListener("dragover", over(true));
  root.addEventListener("dragleave", over(false));
  root.addEventListener("drop", (event) => {
    over(false)(event);
    read(event.dataTransfer?.files[0]);
  });
  show();
  return { roots: [list.root, button(t.choose, () => input.click()), input], show, named };
}
