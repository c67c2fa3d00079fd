/** @file Pipeline: the steps of the input module, with the tensors between them. */

import { button, select, slider, toggle } from "../lib/controls.js";
import {
  color,
  frame,
  h,
  language,
  onKeys,
  onTheme,
  schedule,
  statusLine,
  textsIn,
} from "../lib/dom.js";
import { canvas, heatMap, outline, picture, rgb } from "../lib/draw.js";
import { bytes, listen, put } from "../lib/model.js";
import { clamp, decimal, halfToFloat } from "../lib/numbers.js";
import { difference, matrix, patchesOf, run, sequenceOf } from "./compute.js";

/** @import { Texts, View } from "../lib/types.d.ts" */
/** @typedef {Texts<typeof import("./en.js").default>} OwnTexts */

const RANGE = 2, GUTTER = 9; // beside each row, in colour: what is in it

/**
 * @param {OwnTexts} texts
 * @param {View} view
 */
function render(texts, { model, el }) {
  const t = textsIn(texts, language(model, el));
  const { root, controls, stage, caption } = frame(el, { label: t.name, room: model.get("_room") });
  const sizes = model.get("_sizes"), { H, W, P, D, N, p } = sizes;
  const pixels = bytes(model, "_photo");
  const of = (name) => matrix(halfToFloat(bytes(model, name)), D);
  const parts = {
    patches: patchesOf(pixels, sizes),
    tokens: of("_tokens"),
    token0: of("_class_token"),
    table: of("_positions"),
    kept: matrix(Float32Array.from(bytes(model, "_kept")), D),
    p,
  };
  const orders = /** @type {(keyof typeof t.orders)[]} */ (Object.keys(t.orders));
  const results = Object.fromEntries(
    orders.map((order) => [order, run(parts, order)]),
  );

  const back = button(t.back, () => put(model, { step: model.get("step") - 1 }));
  const next = button(t.next, () => put(model, { step: model.get("step") + 1 }));
  const walk = h("div", { class: "dnnl-pl-steps" });
  const order = select({
    label: t.order,
    options: Object.entries(t.orders),
    value: model.get("order"),
    onchange: (v) => put(model, { order: v }),
  });
  const token = slider({
    label: t.token,
    min: 0,
    max: N,
    value: model.get("token"),
    oninput: (v) => put(model, { token: v }),
  });
  controls.append(walk, order.root, token.root);

  const photo = canvas(116, 116, t.picture);
  const panels = ["before", "used", "after"].map((name) => {
    const view = canvas(190, 204, "");
    const text = h("figcaption", {});
    const panel = {
      name,
      view,
      text,
      root: h("figure", {}, text, view.root),
      matrix: null,
      first: 0,
    };
    view.root.addEventListener("pointerdown", (event) => {
      if (!panel.matrix) return;
      const { rows } = panel.matrix;
      const row = clamp(Math.floor(view.at(event)[1] / view.height * rows), 0, rows - 1);
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
  const says = statusLine(),
    row = h("p", {}),
    end = h("p", { class: "dnnl-pl-end" }),
    why = h("p", {});
  stage.append(
    h(
      "div",
      { class: "dnnl-pl-row" },
      h(
        "figure",
        { class: "dnnl-pl-photo" },
        h("figcaption", {}, t.steps.image, h("br"), h("code", {}, `(1, 3, ${H}, ${W})`)),
        photo.root,
      ),
      panels.map((panel) => panel.root),
    ),
    h("div", { class: "dnnl-pl-all" }, says.root, row, end, why),
  );
  caption.textContent = t.caption;

  let setStep = (/** @type {number} */ _step) => {};
  let walked = null; // the order for which the row of steps was made
  function drawSteps(names, step) {
    if (walked !== names.join()) {
      walked = names.join();
      const steps = toggle({
        label: t.step,
        options: names.map((name, i) => [i, t.steps[name]]),
        value: step,
        onchange: (v) => put(model, { step: v }),
      });
      walk.replaceChildren(steps.root, h("div", {}, back, " ", next));
      setStep = steps.set;
    }
    setStep(step);
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
    const { ctx, width, height } = panel.view,
      range = inside === "kept" ? { min: 0, max: 1 } : { min: -RANGE, max: RANGE };
    const tall = height / Math.max(m.rows, N); // one row alone is as tall as among the others
    heatMap(ctx, m.values, m.rows, m.cols, {
      ...range,
      x: GUTTER,
      w: width - GUTTER,
      h: tall * m.rows,
    });
    for (let i = 0; i < m.rows; i++) {
      const colors = [];
      if (inside !== "table" && inside !== "kept") {
        colors.push(first + i ? "--dnnl-patch" : "--dnnl-class-token");
      }
      if (inside === "table" || inside === "sum" || (inside === "sum but 0" && first + i)) {
        colors.push("--dnnl-position");
      }
      colors.forEach((name, k) => {
        ctx.fillStyle = color(root, name);
        ctx.fillRect(
          (k * (GUTTER - 3)) / colors.length,
          i * tall + 0.5,
          (GUTTER - 3) / colors.length,
          tall - 1,
        );
      });
    }
    const at = picked - first;
    if (at < 0 || at >= m.rows) return;
    outline(
      ctx,
      GUTTER,
      Math.max(1, at * tall - 1),
      width - GUTTER - 1,
      Math.min(tall + 2, height - at * tall),
    );
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
    const label = name === "class_token" && order_ === "positions_first"
      ? t.folded
      : t.parameter[name];
    drawPanel(
      panels[0],
      earlier?.after ?? null,
      t.before,
      first(earlier?.after),
      picked,
      inside(step - 1),
    );
    const usedFirst = name === "class_token"
      ? 0
      : order_ === "sliced" && name === "positions"
      ? 1
      : first(used);
    drawPanel(
      panels[1],
      used ?? null,
      label ?? "",
      usedFirst,
      picked,
      name === "dropout"
        ? "kept"
        : name === "positions"
        ? "table"
        : order_ === "positions_first"
        ? "sum"
        : "content",
    );
    drawPanel(
      panels[2],
      now?.after ?? null,
      t.steps[name],
      first(now?.after),
      picked,
      inside(step),
    );

    const dropped = parts.kept.values.reduce((n, v) => n + (v ? 0 : 1), 0);
    says.say(
      t.says[name === "positions" && order_ === "sliced" ? "sliced" : name]({
        ...sizes,
        rows: now?.after.rows,
        dropped,
        total: parts.kept.values.length,
      }),
    );
    const i = picked - first(now?.after), cols = W / P;
    const whose = picked === 0
      ? t.row.class
      : t.row.patch(picked, Math.floor((picked - 1) / cols), (picked - 1) % cols);
    if (now && i < 0) row.textContent = t.absent;
    else {
      const some = now
        ? [...now.after.values.subarray(i * now.after.cols, i * now.after.cols + 4)].map((v) =>
          decimal(v)
        ).join(", ")
        : "";
      row.textContent = now ? t.starts(whose, some) : whose;
    }
    const { rows, most } = difference(z, results.class_first.end);
    end.textContent = t.same;
    if (rows) end.textContent = t.differs({ rows, of: N + 1, most: most.toFixed(2) });
    if (order_ === "class_first") end.textContent = "";
    why.textContent = t.why[order_];
  }

  const redraw = schedule(draw);
  const stops = [listen(model, ["step", "order", "token"], redraw), onTheme(redraw)];
  redraw();
  return () => {
    redraw.cancel();
    says.stop();
    for (const stop of stops) stop();
    root.remove();
  };
}

/** @param {OwnTexts} texts */
export default (texts) => ({ render: (/** @type {View} */ view) => render(texts, view) });
