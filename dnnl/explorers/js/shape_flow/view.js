/** @file ShapeFlow: every shape of the input module, its parameters, and what does not fit. */

import { select, slider } from "../lib/controls.js";
import { color, frame, h, language, onTheme, schedule, statusLine, textsIn } from "../lib/dom.js";
import { canvas } from "../lib/draw.js";
import { listen, put } from "../lib/model.js";
import { shapeFlow, sizesThatFit } from "./compute.js";

/** @import { Texts, View } from "../lib/types.d.ts" */
/** @typedef {Texts<typeof import("./en.js").default>} OwnTexts */

const SIZES = {
  height: [16, 512, 1],
  width: [16, 512, 1],
  patch_size: [1, 32, 1],
  in_channels: [1, 13, 1],
  embed_dim: [8, 1280, 8],
  num_prefix_tokens: [0, 8, 1],
};
const NAMES = Object.keys(SIZES);
const PRESETS = {
  b16: [224, 224, 16, 3, 768, 1],
  b384: [384, 384, 16, 3, 768, 1],
  l16: [224, 224, 16, 3, 1024, 1],
  h14: [224, 224, 14, 3, 1280, 1],
  deit: [224, 224, 16, 3, 768, 2],
  registers: [224, 224, 16, 3, 768, 5],
  chapter: [56, 56, 4, 3, 64, 1],
  odd: [230, 238, 16, 3, 768, 1],
};

const digits = (n) => n.toLocaleString("en-US");
const tuple = (...sizes) => `(${sizes.join(", ")})`;

/**
 * @param {OwnTexts} texts
 * @param {View} view
 */
function render(texts, { model, el }) {
  const t = textsIn(texts, language(model, el));
  const box = frame(el, { label: t.name, room: model.get("_room") }), says = statusLine();
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

  const step = (kind, name, shape, ...weighs) =>
    h(
      "li",
      { class: kind },
      h("span", {}, name),
      h("span", { class: "dnnl-shape" }, shape),
      weighs.map((w) => h("span", { class: "dnnl-weighs" }, w)),
    );

  /** The image to scale under the grid of whole patches; what is left over is filled. */
  const drawImage = (H, W, P, rows, columns) => {
    image.fit();
    image.name(t.picture(H, W, P, rows, columns));
    const { ctx } = image, unit = (image.width - 4) / Math.max(H, W);
    ctx.setTransform(
      ctx.getTransform().translate((image.width - W * unit) / 2, (image.height - H * unit) / 2),
    );
    ctx.fillStyle = color(box.root, "--dnnl-ink");
    ctx.fillRect(0, 0, W * unit, H * unit);
    ctx.fillStyle = color(box.root, "--dnnl-raised");
    ctx.fillRect(0, 0, columns * P * unit, rows * P * unit);
    ctx.strokeStyle = color(box.root, "--dnnl-patch");
    ctx.lineWidth = Math.min(1, (P * unit) / 5); // (a fine grid is a fine one)
    ctx.beginPath();
    for (let i = 0; i <= rows; i++) {
      ctx.moveTo(0, i * P * unit);
      ctx.lineTo(columns * P * unit, i * P * unit);
    }
    for (let j = 0; j <= columns; j++) {
      ctx.moveTo(j * P * unit, 0);
      ctx.lineTo(j * P * unit, rows * P * unit);
    }
    ctx.stroke();
    ctx.strokeStyle = color(box.root, "--dnnl-line");
    ctx.lineWidth = 1;
    ctx.strokeRect(0, 0, W * unit, H * unit);
  };

  const draw = () => {
    const values = NAMES.map((name) => model.get(name)), [H, W, P, C, D, prefix] = values;
    sliders.forEach((s, i) => s.set(values[i]));
    preset.set(
      Object.keys(PRESETS).find((name) => PRESETS[name].every((v, i) => v === values[i])) ?? "own",
    );
    const { rows, columns, N, T, fits, down, across, lost, parameters, total } = shapeFlow(
      H,
      W,
      P,
      C,
      D,
      prefix,
    );
    const weighs = [parameters.patch, parameters.token, parameters.position];
    drawImage(H, W, P, rows, columns);
    refusal.hidden = fits;
    parts.hidden = !fits;
    const first = step("", t.image, tuple("B", C, H, W));
    if (!fits) {
      steps.replaceChildren(first);
      refusal.replaceChildren(
        h(
          "code",
          {},
          `${t.wrong}: Expected an image size divisible by the patch size ${P}×${P}, but got ` +
            `${H}×${W} (height × width): crop, pad or resize first.`,
        ),
        h(
          "p",
          {},
          N
            ? t.conv(rows, columns, down, across, digits(lost), ((100 * lost) / (H * W)).toFixed(1))
            : t.small,
          t.fits(sizesThatFit(H, W, P).join(" / ")),
        ),
      );
      return says.say(t.refuses);
    }
    steps.replaceChildren(
      first,
      step("patch", t.patches, tuple("B", N, C * P * P), t.count(rows, columns, N)),
      step(
        "patch",
        t.tokens,
        tuple("B", N, D),
        t.parameters(`(${C} · ${P}² + 1) · ${D}`, digits(weighs[0])),
      ),
      step(
        "class",
        t.prefix(prefix),
        tuple("B", T, D),
        prefix ? t.parameters(`${prefix} · ${D}`, digits(weighs[1])) : null,
      ),
      step(
        "position",
        t.sequence,
        tuple("B", T, D),
        t.parameters(`${T} · ${D}`, digits(weighs[2])),
      ),
      step("", t.attention, tuple("B", T, T), t.pairs(T, digits(T * T))),
    );
    parts.replaceChildren(...["--dnnl-patch", "--dnnl-class-token", "--dnnl-position"]
      .map((name, i) =>
        h("span", {
          style: {
            flexGrow: weighs[i],
            background: `var(${name})`,
            display: weighs[i] ? "" : "none",
          },
        })
      ));
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

/** @param {OwnTexts} texts */
export default (texts) => ({ render: (/** @type {View} */ view) => render(texts, view) });
