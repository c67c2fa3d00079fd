/** @file ClassAttention: what the class token looks at, and whether its verdict depends on that. */

import { bars } from "../lib/bars.js";
import { slider, toggle } from "../lib/controls.js";
import {
  frame,
  h,
  language,
  onTheme,
  schedule,
  statusLine,
  textsIn,
  uniqueId,
} from "../lib/dom.js";
import { canvas, heatMap } from "../lib/draw.js";
import { gridPad } from "../lib/grid_pad.js";
import { listen, put } from "../lib/model.js";
import { drawFrame, drawHoles, drawImage, STEP, titled } from "../live/patch_view.js";
import { liveModel, photographs, shownImage } from "../live/photographs.js";
import { probabilities } from "../live/vit.js";
import { classRow, hiddenPatches } from "./compute.js";

/** @import { Texts, View } from "../lib/types.d.ts" */
/** @typedef {Texts<typeof import("./en.js").default>} OwnTexts */

const KINDS = /** @type {const} */ (["nothing", "most", "least"]);

/**
 * @param {OwnTexts} texts
 * @param {View} view
 */
function render(texts, { model, el }) {
  const lang = language(model, el), t = textsIn(texts, lang);
  const { root, controls, stage, caption } = frame(el, { label: t.name, room: model.get("_room") });
  const vit = liveModel(model), size = vit.image_size, [ph, pw] = vit.patch_size;
  const rows = size[0] / ph, columns = size[1] / pw, n = rows * columns;
  const percent = (v, digits = 1) => (100 * v).toFixed(digits);

  const says = statusLine(), verdict = statusLine();
  const photos = photographs({ model, root, text: t.live, size, fail: says.say });

  // One small map for every head of every layer, and the layer's mean: the choice is its own picture.
  const name = uniqueId(), layers = [...Array(vit.num_layers).keys()];
  /** @type {(number | null)[]} null: the mean */
  const heads = [null, ...Array(vit.num_heads).keys()];
  const small = layers.flatMap((layer) =>
    heads.map((head) => {
      const view = canvas(columns * 6, rows * 6, "");
      view.root.setAttribute("aria-hidden", "true");
      const input = h("input", {
        type: "radio",
        name,
        "aria-label": t.mapName(layer, head),
        onchange: () => put(model, { layer, head }),
      });
      const label = h(
        "label",
        {},
        input,
        h("span", { class: "dnnl-att-map" }, view.root),
        h("span", { "aria-hidden": "true" }, t.head(head)),
      );
      return { layer, head, view, input, label };
    })
  );
  const table = h("div", { style: `--columns: ${heads.length}` });
  for (const layer of layers) {
    table.append(
      h("span", { "aria-hidden": "true" }, t.layer(layer)),
      ...small.filter((one) => one.layer === layer).map((one) => one.label),
    );
  }
  controls.append(
    ...photos.roots,
    h("fieldset", { class: "dnnl-att-maps" }, h("legend", {}, t.maps), table),
  );

  const [photo, map] = [t.photo, ""].map((label) =>
    gridPad({
      width: columns * STEP,
      height: rows * STEP,
      label,
      cells: () => ({ rows, columns, width: STEP, height: STEP }),
      picked: () => [Math.floor(model.get("patch") / columns), model.get("patch") % columns],
      onpick(row, column) {
        const patch = row * columns + column;
        if (patch !== model.get("patch")) put(model, { patch });
      },
      hover: true,
    })
  );
  for (const pad of [photo, map]) pad.root.classList.add("dnnl-att-photo");
  const mapFigure = titled("", map), names = bars(t.namesLabel);
  const hide = toggle({
    label: t.hide,
    options: KINDS.map((k) => [k, t.kinds[k]]),
    value: model.get("hide"),
    onchange: (kind) => put(model, { hide: kind }),
  });
  const count = slider({
    label: t.count,
    min: 1,
    max: n - 1,
    value: model.get("count"),
    oninput: (v) => put(model, { count: v }),
  });
  stage.append(
    h(
      "div",
      { class: "dnnl-live-views" },
      mapFigure.root,
      titled(t.photo, photo).root,
      h("div", { class: "dnnl-att-names dnnl-live-wide" }, h("p", {}, t.names), names.root),
    ),
    says.root,
    h("div", { class: "dnnl-att-hide" }, hide.root, count.root),
    verdict.root,
  );
  caption.textContent = t.caption;

  /** @type {Float32Array[]} */
  let attention;
  /** @type {Record<string, Float32Array>} */
  let named;
  let shown; // named: probabilities by what was hidden

  /** The whole photograph: its maps, whatever is hidden later. */
  function look() {
    shown = shownImage(model, size);
    const out = vit.forward(shown.image, ...size, { attention: true, decode: false });
    attention = out.attention;
    named = { "": probabilities(out.logits) };
    for (const { layer, head, view } of small) {
      view.fit();
      const row = classRow(attention[layer], vit.num_heads, n + 1, head);
      heatMap(view.ctx, row.subarray(1), rows, columns, { min: 0, w: view.width, h: view.height });
    }
    photos.show();
  }

  function update() {
    const layer = model.get("layer"),
      head = model.get("head"),
      kind = model.get("hide"),
      patch = model.get("patch");
    const row = classRow(attention[layer], vit.num_heads, n + 1, head), weights = row.subarray(1);
    for (const one of small) one.input.checked = one.layer === layer && one.head === head;

    const mask = hiddenPatches(weights, kind, model.get("count"));
    const hidden = mask.reduce((a, b) => a + b, 0);
    const key = hidden ? [layer, head, kind, hidden].join() : "";
    const p = named[key] ??= probabilities(
      vit.forward(shown.image, ...size, { mask, decode: false }).logits,
    );

    const best = p.indexOf(Math.max(...p)), top = weights.indexOf(Math.max(...weights));
    const s = {
      n,
      hidden,
      patch,
      map: t.mapName(layer, head),
      most: percent(weights[top]),
      row: Math.floor(top / columns),
      column: top % columns,
      pickRow: Math.floor(patch / columns),
      pickColumn: patch % columns,
      weight: percent(weights[patch], 2),
      plain: percent(1 / (n + 1), 2),
      own: percent(row[0]),
      patches: percent(1 - row[0]),
      guess: photos.named(vit.photographs[best]),
      percent: percent(p[best], 0),
    };
    map.fit();
    heatMap(map.ctx, weights, rows, columns, { min: 0, w: map.width, h: map.height });
    drawImage(photo, shown.pixels);
    drawHoles(photo, root, mask, columns);
    for (const view of [map, photo]) drawFrame(view, root, s.pickRow, s.pickColumn);
    mapFigure.retitle(t.map(s));
    map.name(t.mapLabel(s));
    photo.name(t.photoLabel(s));
    names.set(vit.photographs.map((one, i) => ({
      name: photos.named(one),
      text: `${percent(p[i], 0)} %`,
      share: p[i],
      shown: i === best,
    })));
    says.say(t.pick(s) + t.self(s));
    verdict.say((hidden ? t.says : t.whole)(s));
    hide.set(kind);
    count.set(model.get("count"));
    count.input.disabled = kind === "nothing";
  }

  const redraw = schedule(update),
    relook = schedule(() => {
      look();
      update();
    });
  const stops = [
    listen(model, ["photograph", "own"], relook),
    listen(model, ["layer", "head", "patch", "hide", "count"], redraw),
    onTheme(redraw),
    photo.stop,
    map.stop,
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

/** @param {OwnTexts} texts */
export default (texts) => ({ render: (/** @type {View} */ view) => render(texts, view) });
