/* EraseAndReconstruct: rub out patches of a photograph, and a model fills them in. */

const TEXT = {
  en: {
    name: "Erase and reconstruct",
    seen: "What the model sees",
    seenLabel: (s) => `Photograph of ${s.n} patches, ${s.count} of them erased. Drag to erase. By keyboard: arrow keys move, Space erases or restores.`,
    filled: "What it fills in",
    filledLabel: (s) => `The photograph with its ${s.count} erased patches filled in by the model, positions ${s.positions}.`,
    original: "The photograph",
    positions: "Positions",
    kinds: { true: "as learned", off: "off (zeros)", shuffled: "shuffled" },
    brush: "Eraser",
    wide: (v) => `${v} × ${v}`,
    half: "Erase half",
    restore: "Restore",
    errors: "Squared error on the erased patches, by positions",
    errorTitle: (s) => `Squared error on the ${s.count} erased patches, by positions`,
    says: (s) => `${s.count} of ${s.n} patches erased; squared error with positions ${s.positions}: ${s.error}. The class token says: ${s.guess}, ${s.percent} %.`,
    whole: (s) => `Nothing is erased. The class token says: ${s.guess}, ${s.percent} %.`,
    at: (row, column, hidden) => `Row ${row}, column ${column}: ${hidden ? "erased" : "visible"}.`,
    caption: "Drag over the first picture to erase patches; start on a hole to restore. The model, here in the page, fills the holes. Without positions it cannot tell one hole from another and puts the same patch into all of them; shuffled, it puts the right colours in wrong places. Try an image of your own (drop it here): trained on ten photographs, it can only give it one of their ten names.",
  },
  zh: {
    name: "擦除与重建",
    seen: "模型看到的",
    seenLabel: (s) => `照片共 ${s.n} 个图像块，已擦去 ${s.count} 个。拖动即可擦去。键盘：方向键移动，空格键擦去或恢复。`,
    filled: "模型补全的",
    filledLabel: (s) => `擦去的 ${s.count} 个图像块已由模型补全，位置嵌入：${s.positions}。`,
    original: "原照片",
    positions: "位置嵌入",
    kinds: { true: "原样", off: "关闭（全零）", shuffled: "打乱" },
    brush: "橡皮",
    wide: (v) => `${v} × ${v}`,
    half: "随机擦去一半",
    restore: "恢复",
    errors: "擦除处的平方误差，三种位置嵌入各算一次",
    errorTitle: (s) => `擦去的 ${s.count} 个图像块上的平方误差，三种位置嵌入各算一次`,
    says: (s) => `${s.n} 个图像块擦去了 ${s.count} 个；平方误差 ${s.error}（位置嵌入：${s.positions}）。类别标记认成：${s.guess}（${s.percent}%）。`,
    whole: (s) => `什么也没擦。类别标记认成：${s.guess}（${s.percent}%）。`,
    at: (row, column, hidden) => `第 ${row} 行、第 ${column} 列：${hidden ? "已擦去" : "可见"}。`,
    caption: "在第一幅图上拖动，擦去图像块；从空缺处拖起则恢复。模型就在本页中运行，把空缺补上。没有位置嵌入，它分不清各个空缺，只好处处填上同一个图像块；位置嵌入打乱之后，颜色对了，地方却错了。也可以换上你自己的图片（拖到这里就行）：模型只用十张照片训练过，只会从那十个名字里给它挑一个。",
  },
};

const STYLE = `
.dnnl-erase-seen { touch-action: pinch-zoom; }
.dnnl-erase-errors { margin: 0.7rem 0 0.5rem; }
.dnnl-erase-errors > p { font-weight: 600; }
`;

const KINDS = ["true", "off", "shuffled"];

async function render({ model, el }) {
  const lang = language(model, el), t = texts(TEXT, lang);
  const { root, controls, stage, caption } = frame(el, { label: t.name, room: model.get("_room") });
  root.append(h("style", {}, LIVE_STYLE + STYLE));
  const vit = liveModel(model), size = vit.image_size, [ph, pw] = vit.patch_size;
  const grid = [size[0] / ph, size[1] / pw], [rows, columns] = grid, n = rows * columns;

  // The positions: the model's table, zeros, and its rows of patches in another order.
  const tables = { true: vit.table, off: new Float32Array(vit.table.length), shuffled: vit.table.slice() };
  model.get("_order").forEach((from, to) => {
    const d = vit.embed_dim;
    tables.shuffled.set(vit.table.subarray((from + 1) * d, (from + 2) * d), (to + 1) * d);
  });

  const says = live();
  const photos = photographs(model, root, lang, size, says.say);
  const brush = slider({ label: t.brush, min: 1, max: 5, value: model.get("brush"), format: t.wide, oninput: (v) => put(model, { brush: v }) });
  const kind = toggle({
    label: t.positions, options: KINDS.map((k) => [k, t.kinds[k]]), value: model.get("positions"),
    onchange: (positions) => put(model, { positions }),
  });
  const erase = (list) => put(model, { erased: list });
  const half = button(t.half, () => {
    const order = Array.from({ length: n }, (_, i) => [Math.random(), i]).sort((a, b) => a[0] - b[0]);
    erase(order.slice(0, n >> 1).map(([, i]) => i).sort((a, b) => a - b));
  });
  const restore = button(t.restore, () => erase([]));
  controls.append(...photos.roots, half, restore, brush.root, kind.root);

  const seen = patchView(t.seen, grid), filled = patchView(t.filled, grid), original = patchView(t.original, grid);
  seen.view.classList.add("dnnl-live-canvas", "dnnl-erase-seen");
  seen.root.classList.add("dnnl-live-wide");
  seen.view.tabIndex = 0;
  seen.view.setAttribute("role", "application"); // so that a screen reader lets the arrow keys through
  const errorTitle = h("p"), errorBars = bars(t.errors);
  stage.append(h("div", { class: "dnnl-live-views" }, seen.root, filled.root, original.root),
    h("div", { class: "dnnl-erase-errors" }, errorTitle, errorBars.root), says.root);
  caption.textContent = t.caption;

  let shown, mask, cursor = [rows >> 1, columns >> 1], pointer = null, byKey = false;
  const errors = {}, stale = new Set(KINDS);

  /** The patches under the eraser at (row, column): the first row and column, and how many. */
  const under = ([row, column]) => {
    const b = model.get("brush"), top = Math.max(0, row - ((b - 1) >> 1)), left = Math.max(0, column - ((b - 1) >> 1));
    return [top, left, Math.min(rows, row + (b >> 1) + 1) - top, Math.min(columns, column + (b >> 1) + 1) - left];
  };

  function drawSeen() {
    drawImage(seen, shown.pixels);
    drawHoles(seen, root, mask, columns);
    const place = pointer ?? (byKey ? cursor : null);
    if (place) drawFrame(seen, root, ...under(place));
  }

  /** The photograph with the model's patches in its holes. */
  function drawFilled(patches) {
    const pixels = new ImageData(new Uint8ClampedArray(shown.pixels.data), size[1], size[0]);
    mask.forEach((hidden, i) => {
      if (!hidden) return;
      const top = Math.floor(i / columns) * ph, left = (i % columns) * pw;
      for (let c = 0; c < 3; c++)
        for (let k = 0; k < ph * pw; k++) {
          const value = patches[(i * 3 + c) * ph * pw + k] * vit.std + vit.mean;
          pixels.data[4 * ((top + Math.floor(k / pw)) * size[1] + left + (k % pw)) + c] = 255 * value;
        }
    });
    drawImage(filled, pixels);
  }

  const run = (positions) => {
    const out = vit.forward(shown.image, ...size, { mask, table: tables[positions] });
    errors[positions] = hiddenError(out.patches, out.target, mask);
    stale.delete(positions);
    return out;
  };

  function write(out) {
    const positions = model.get("positions"), p = probabilities(out.logits), best = p.indexOf(Math.max(...p));
    const s = {
      n, count: mask.reduce((a, b) => a + b, 0), positions: t.kinds[positions], guess: photos.named(vit.photographs[best]),
      percent: (100 * p[best]).toFixed(0), error: errors[positions].toFixed(3),
    };
    says.say((s.count ? t.says : t.whole)(s));
    seen.name(t.seenLabel(s));
    filled.name(t.filledLabel(s));
    errorTitle.textContent = t.errorTitle(s);
  }

  function drawErrors() {
    const most = Math.max(1, ...KINDS.map((k) => errors[k] || 0));
    errorBars.set(KINDS.map((k) => ({
      name: t.kinds[k], shown: k === model.get("positions"), share: (errors[k] || 0) / most,
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
  function rub(from, to, hide) {
    const list = new Set(model.get("erased"));
    const steps = Math.max(1, Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1]));
    for (let k = 0; k <= steps; k++) {
      const [top, left, high, wide] = under(from.map((v, axis) => Math.round(v + (to[axis] - v) * k / steps)));
      for (let r = top; r < top + high; r++)
        for (let c = left; c < left + wide; c++)
          if (hide) list.add(r * columns + c); else list.delete(r * columns + c);
    }
    if (list.size !== model.get("erased").length) erase([...list].sort((a, b) => a - b));
  }

  let rubbing = null;                        // {last patch, hide}
  const isHidden = ([row, column]) => model.get("erased").includes(row * columns + column);
  seen.view.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const place = seen.patchAt(event);
    seen.view.setPointerCapture(event.pointerId);
    rubbing = { last: place, hide: !isHidden(place) };
    pointer = cursor = place;
    byKey = false;
    rub(place, place, rubbing.hide);
    redrawSeen();
  });
  seen.view.addEventListener("pointermove", (event) => {
    pointer = seen.patchAt(event);
    if (rubbing) {
      rub(rubbing.last, pointer, rubbing.hide);
      rubbing.last = cursor = pointer;
    }
    redrawSeen();
  });
  const leave = () => { rubbing = pointer = null; redrawSeen(); };
  for (const name of ["pointerup", "pointercancel"]) {
    seen.view.addEventListener(name, (event) => { if (event.pointerType === "mouse") rubbing = null; else leave(); });
  }
  seen.view.addEventListener("pointerleave", () => { if (!rubbing) leave(); });
  seen.view.addEventListener("focus", () => { byKey = seen.view.matches(":focus-visible"); redrawSeen(); });
  seen.view.addEventListener("blur", () => { byKey = false; redrawSeen(); });

  const move = (down, right) => () => {
    cursor = [Math.min(rows - 1, Math.max(0, cursor[0] + down)), Math.min(columns - 1, Math.max(0, cursor[1] + right))];
    pointer = null;
    byKey = true;
    says.say(t.at(...cursor, isHidden(cursor)));
    redrawSeen();
  };
  const press = () => rub(cursor, cursor, !isHidden(cursor));
  onKeys(seen.view, {
    ArrowUp: move(-1, 0), ArrowDown: move(1, 0), ArrowLeft: move(0, -1), ArrowRight: move(0, 1),
    Home: move(0, -columns), End: move(0, columns), " ": press, Enter: press,
  });

  const stops = [listen(model, ["photograph", "own", "erased", "positions", "brush"], redraw), onTheme(redraw)];
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

export default { render };
