/** @file EraseAndReconstruct: rub out patches of a photograph, and a model fills them in. */

import { bars } from "../lib/bars.js";
import { button, slider, toggle } from "../lib/controls.js";
import { frame, h, language, onKeys, onTheme, schedule, statusLine, textsIn } from "../lib/dom.js";
import { canvas } from "../lib/draw.js";
import { listen, put } from "../lib/model.js";
import { clamp } from "../lib/numbers.js";
import { drawFrame, drawHoles, drawImage, STEP, titled } from "../live/patch_view.js";
import { liveModel, photographs, shownImage } from "../live/photographs.js";
import { hiddenError, probabilities } from "../live/vit.js";
import { filled, rub, shuffledTable, under } from "./compute.js";

/** @import { Texts, View } from "../lib/types.d.ts" */
/** @typedef {Texts<typeof import("./en.js").default>} OwnTexts */
/** @import { Cell } from "./compute.js" */

const KINDS = /** @type {const} */ (["true", "off", "shuffled"]);

/**
 * @param {OwnTexts} texts
 * @param {View} view
 */
function render(texts, { model, el }) {
  const lang = language(model, el), t = textsIn(texts, lang);
  const { root, controls, stage, caption } = frame(el, { label: t.name, room: model.get("_room") });
  const vit = liveModel(model), size = vit.image_size, [ph, pw] = vit.patch_size;
  /** @type {Cell} */
  const grid = [size[0] / ph, size[1] / pw];
  const [rows, columns] = grid, n = rows * columns;

  const tables = {
    true: vit.table,
    off: new Float32Array(vit.table.length),
    shuffled: shuffledTable(vit.table, vit.embed_dim, model.get("_order")),
  };

  const says = statusLine();
  const photos = photographs({ model, root, text: t.live, size, fail: says.say });
  const brush = slider({
    label: t.brush,
    min: 1,
    max: 5,
    value: model.get("brush"),
    format: t.wide,
    oninput: (v) => put(model, { brush: v }),
  });
  const kind = toggle({
    label: t.positions,
    options: KINDS.map((k) => [k, t.kinds[k]]),
    value: model.get("positions"),
    onchange: (positions) => put(model, { positions }),
  });
  const erase = (list) => put(model, { erased: list });
  const half = button(t.half, () => {
    const order = Array.from({ length: n }, (_, i) => [Math.random(), i]).sort((a, b) =>
      a[0] - b[0]
    );
    erase(order.slice(0, n >> 1).map(([, i]) => i).sort((a, b) => a - b));
  });
  const restore = button(t.restore, () => erase([]));
  controls.append(...photos.roots, half, restore, brush.root, kind.root);

  const [seen, fill, original] = [t.seen, t.filled, t.original].map((title) =>
    canvas(columns * STEP, rows * STEP, title)
  );
  seen.root.classList.add("dnnl-live-canvas", "dnnl-erase-seen");
  seen.root.tabIndex = 0;
  seen.root.setAttribute("role", "application"); // so that a screen reader lets the keys through
  const seenFigure = titled(t.seen, seen).root;
  seenFigure.classList.add("dnnl-live-wide");
  const errorTitle = h("p"), errorBars = bars(t.errors);
  stage.append(
    h(
      "div",
      { class: "dnnl-live-views" },
      seenFigure,
      titled(t.filled, fill).root,
      titled(t.original, original).root,
    ),
    h("div", { class: "dnnl-erase-errors" }, errorTitle, errorBars.root),
    says.root,
  );
  caption.textContent = t.caption;

  let shown, mask, byKey = false;
  /** @type {Cell} */
  let cursor = [rows >> 1, columns >> 1];
  /** @type {Cell | null} */
  let pointer = null;
  /** @type {Record<string, number>} */
  const errors = {};
  const stale = new Set(KINDS);

  /** @type {(event: PointerEvent) => Cell} the patch under a pointer, or the nearest */
  const patchAt = (event) => {
    const [x, y] = seen.at(event);
    return [clamp(Math.floor(y / STEP), 0, rows - 1), clamp(Math.floor(x / STEP), 0, columns - 1)];
  };

  function drawSeen() {
    drawImage(seen, shown.pixels);
    drawHoles(seen, root, mask, columns);
    const place = pointer ?? (byKey ? cursor : null);
    if (place) drawFrame(seen, root, ...under(place, model.get("brush"), grid));
  }

  /** The photograph with the model's patches in its holes. */
  function drawFilled(patches) {
    const pixels = filled(shown.pixels.data, patches, mask, { ...vit, width: size[1] });
    drawImage(fill, new ImageData(pixels, size[1], size[0]));
  }

  const run = (positions) => {
    const out = vit.forward(shown.image, ...size, { mask, table: tables[positions] });
    errors[positions] = hiddenError(out.patches, out.target, mask);
    stale.delete(positions);
    return out;
  };

  function write(out) {
    const positions = model.get("positions"),
      p = probabilities(out.logits),
      best = p.indexOf(Math.max(...p));
    const s = {
      n,
      count: mask.reduce((a, b) => a + b, 0),
      positions: t.kinds[positions],
      guess: photos.named(vit.photographs[best]),
      percent: (100 * p[best]).toFixed(0),
      error: errors[positions].toFixed(3),
    };
    says.say((s.count ? t.says : t.whole)(s));
    seen.name(t.seenLabel(s));
    fill.name(t.filledLabel(s));
    errorTitle.textContent = t.errorTitle(s);
  }

  function drawErrors() {
    const most = Math.max(1, ...KINDS.map((k) => errors[k] || 0));
    errorBars.set(KINDS.map((k) => ({
      name: t.kinds[k],
      shown: k === model.get("positions"),
      share: (errors[k] || 0) / most,
      text: errors[k] >= 0 ? errors[k].toFixed(3) : "–",
    })));
  }

  // The other two errors wait until the hand rests: each costs a forward pass.
  let timer = null;
  const compare = () => {
    for (const k of [...stale]) run(k);
    drawErrors();
  };

  function update() {
    shown = shownImage(model, size);
    mask = new Uint8Array(n);
    for (const i of model.get("erased")) mask[i] = 1;
    KINDS.forEach((k) => stale.add(k));
    drawSeen();
    const out = run(model.get("positions"));
    drawFilled(out.patches);
    write(out);
    drawErrors();
    clearTimeout(timer);
    timer = setTimeout(compare, 150);
    drawImage(original, shown.pixels);
    photos.show();
    brush.set(model.get("brush"));
    kind.set(model.get("positions"));
  }
  const redraw = schedule(update), redrawSeen = schedule(drawSeen);

  /** Erase or restore what is under the eraser along the way from one patch to another. */
  function wipe(from, to, hide) {
    const before = model.get("erased");
    const after = rub(before, from, to, hide, model.get("brush"), grid);
    if (after.length !== before.length) erase(after);
  }

  let rubbing = null; // {last patch, hide}
  const isHidden = ([row, column]) => model.get("erased").includes(row * columns + column);
  seen.root.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const place = patchAt(event);
    seen.root.setPointerCapture(event.pointerId);
    rubbing = { last: place, hide: !isHidden(place) };
    pointer = cursor = place;
    byKey = false;
    wipe(place, place, rubbing.hide);
    redrawSeen();
  });
  seen.root.addEventListener("pointermove", (event) => {
    pointer = patchAt(event);
    if (rubbing) {
      wipe(rubbing.last, pointer, rubbing.hide);
      rubbing.last = cursor = pointer;
    }
    redrawSeen();
  });
  const leave = () => {
    rubbing = pointer = null;
    redrawSeen();
  };
  for (const name of /** @type {const} */ (["pointerup", "pointercancel"])) {
    seen.root.addEventListener(name, (event) => {
      if (event.pointerType === "mouse") rubbing = null;
      else leave();
    });
  }
  seen.root.addEventListener("pointerleave", () => {
    if (!rubbing) leave();
  });
  seen.root.addEventListener("focus", () => {
    byKey = seen.root.matches(":focus-visible");
    redrawSeen();
  });
  seen.root.addEventListener("blur", () => {
    byKey = false;
    redrawSeen();
  });

  const move = (down, right) => () => {
    cursor = [
      Math.min(rows - 1, Math.max(0, cursor[0] + down)),
      Math.min(columns - 1, Math.max(0, cursor[1] + right)),
    ];
    pointer = null;
    byKey = true;
    says.say(t.at(...cursor, isHidden(cursor)));
    redrawSeen();
  };
  const press = () => wipe(cursor, cursor, !isHidden(cursor));
  onKeys(seen.root, {
    ArrowUp: move(-1, 0),
    ArrowDown: move(1, 0),
    ArrowLeft: move(0, -1),
    ArrowRight: move(0, 1),
    Home: move(0, -columns),
    End: move(0, columns),
    " ": press,
    Enter: press,
  });

  const stops = [
    listen(model, ["photograph", "own", "erased", "positions", "brush"], redraw),
    onTheme(redraw),
  ];
  redraw();
  return () => {
    clearTimeout(timer);
    redraw.cancel();
    redrawSeen.cancel();
    says.stop();
    for (const stop of stops) stop();
    root.remove();
  };
}

/** @param {OwnTexts} texts */
export default (texts) => ({ render: (/** @type {View} */ view) => render(texts, view) });
