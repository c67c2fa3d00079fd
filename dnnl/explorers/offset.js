/* Offset: one patch in eight places is one token, until a table of positions is added. */

const STYLE = `
.dnnl-places .dnnl-controls {
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(min(16rem, 100%), 1fr));
}

.dnnl-places .dnnl-toggle {
  grid-column: 1 / -1;
}

.dnnl-offset {
  display: grid;
  gap: 0.8rem 1.2rem;
  justify-items: center;
}

@container (min-width: 620px) {
  .dnnl-offset {
    align-items: center;
    grid-template-columns: 1fr 1.15fr;
  }
}

.dnnl-offset canvas:first-child {
  cursor: pointer;
}
`;

const TEXT = {
  en: {
    name: "A table of positions moves equal tokens apart",
    scale: "The table, times",
    table: "Table",
    tables: { trained: "trained", sincos: "sin-cos", random: "random" },
    patch: "Pasted patch",
    place: (i) => `${i} (${Math.floor(i / 14)}, ${i % 14})`,
    photo: (i) => `Photograph of 14 × 14 patches; patch ${i} (row ${Math.floor(i / 14)}, column ${i % 14}) is pasted in eight numbered places. Arrow keys choose another patch.`,
    plane: (scale, table) => `The tokens of all patches in a plane, with ${scale} times the ${table} table added; the eight equal patches are numbered.`,
    none: "Without a table the eight equal patches are one token: all distances are 0.",
    says: (low, high, scale, one, two, d) => `Eight equal patches, ${low} to ${high} apart. Tokens 1 and 2: ${scale} · |P(${one}) − P(${two})| = ${d}, whatever they show.`,
    caption: "Every token of the photograph, drawn as its patch, in the plane that shows most of them. Drag the table to 0: the eight copies fall together, and the photograph becomes a heap, sorted by content alone. Drag it up: every place has its own offset. Paste another patch: all eight move together, and their distances stay. Which table unfolds the photograph?",
  },
  zh: {
    name: "位置嵌入表把相同的 token 分开",
    scale: "位置嵌入表的倍数",
    table: "位置嵌入表",
    tables: { trained: "训练得到", sincos: "正余弦", random: "随机" },
    patch: "粘贴的图像块",
    place: (i) => `${i} (${Math.floor(i / 14)}, ${i % 14})`,
    photo: (i) => `照片共 14 × 14 个图像块；图像块 ${i}（第 ${Math.floor(i / 14)} 行、第 ${i % 14} 列）贴到了八个带编号的位置。按方向键换一个图像块。`,
    plane: (scale, table) => `所有图像块的 token 画在一个平面上，已加上 ${scale} 倍的位置嵌入表（${table}）；八个相同的图像块带有编号。`,
    none: "没有位置嵌入表时，八个相同的图像块是同一个 token：彼此距离都是 0。",
    says: (low, high, scale, one, two, d) => `八个相同的图像块，彼此相距 ${low} 到 ${high}。token 1 与 token 2：${scale} · |P(${one}) − P(${two})| = ${d}，与内容无关。`,
    caption: "照片的每个 token 都画成自己的图像块，平面选的是最能把它们摊开的那一个。把位置嵌入表的倍数拖到 0：八个副本重合，照片变成一堆只按内容排列的图像块。再拖大：每个位置都有自己的位移。换一个图像块粘贴：八个副本一起移动，彼此的距离不变。哪一种位置嵌入表能把照片展开？",
  },
};

const GRID = 14, SIDE = 4, PATCHES = GRID * GRID, DIM = 64, MOST = 1.5;
const TABLES = ["trained", "sincos", "random"];

function render({ model, el }) {
  const t = texts(TEXT, language(model, el));
  const places = model.get("_places"), pixels = bytes(model, "_pixels");
  const rows = halfToFloat(bytes(model, "_rows")), planes = halfToFloat(bytes(model, "_plane"));
  const place = (i) => `${Math.floor(i / GRID)}, ${i % GRID}`;

  const box = frame(el, { label: t.name, room: model.get("_room") }), says = live();
  box.root.append(h("style", {}, STYLE));
  box.root.classList.add("dnnl-places");
  box.caption.textContent = t.caption;
  const scale = slider({
    label: t.scale, min: 0, max: MOST, step: 0.05, value: model.get("scale"),
    format: (v) => v.toFixed(2),
    oninput: (v) => put(model, { scale: v }),
  });
  const table = toggle({
    label: t.table,
    options: TABLES.map((name) => [name, t.tables[name]]),
    value: model.get("table"),
    onchange: (v) => put(model, { table: v }),
  });
  const patch = slider({
    label: t.patch, min: 0, max: PATCHES - 1, value: model.get("patch"),
    format: t.place,
    oninput: (v) => put(model, { patch: v }),
  });
  box.controls.append(table.root, scale.root, patch.root);

  const photo = canvas(280, 280, ""), plane = canvas(340, 320, "");
  photo.root.tabIndex = 0;
  box.stage.append(photo.root, plane.root);
  box.stage.classList.add("dnnl-offset");
  box.stage.after(says.root);

  const pick = (event) => {
    const [x, y] = photo.at(event), side = photo.width / GRID;
    const [row, column] = [y, x].map((v) => Math.min(GRID - 1, Math.max(0, Math.floor(v / side))));
    put(model, { patch: row * GRID + column });
  };
  const onPick = (event) => {
    if (event.type === "pointermove" && !(event.buttons & 1)) return;
    pick(event);
  };
  photo.root.addEventListener("pointerdown", onPick);
  photo.root.addEventListener("pointermove", onPick);
  const step = (down, right) => () => {
    const i = model.get("patch"), row = Math.floor(i / GRID) + down, column = (i % GRID) + right;
    if (row >= 0 && row < GRID && column >= 0 && column < GRID) put(model, { patch: row * GRID + column });
  };
  const stopKeys = onKeys(photo.root, {
    ArrowUp: step(-1, 0), ArrowDown: step(1, 0), ArrowLeft: step(0, -1), ArrowRight: step(0, 1),
  });

  /** The photograph with the patch pasted, as a sheet to cut patches from. */
  const sheet = document.createElement("canvas");
  sheet.width = sheet.height = GRID * SIDE;
  const corner = (i) => [(i % GRID) * SIDE, Math.floor(i / GRID) * SIDE];
  const paste = (from) => {
    const paper = sheet.getContext("2d"), image = rgb(pixels, GRID * SIDE, GRID * SIDE);
    paper.putImageData(image, 0, 0);
    for (const i of places) {
      const [x, y] = corner(from), [u, v] = corner(i);
      paper.putImageData(image, u - x, v - y, x, y, SIDE, SIDE);
    }
  };

  /** A number in a disc. */
  const badge = (ctx, text, x, y, radius) => {
    ctx.fillStyle = "#00694d";
    ctx.strokeStyle = "#fff";
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, 2 * Math.PI);
    ctx.fill();
    ctx.stroke();
    ctx.fillStyle = "#fff";
    ctx.font = `600 ${radius * 1.35}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText(text, x, y + 0.5);
  };

  /** How far apart the copies are: [smallest, largest, first and second], for the table as it is. */
  const distances = (which) => {
    const row = (k) => rows.subarray((which * places.length + k) * DIM, (which * places.length + k + 1) * DIM);
    const between = (a, b) => Math.hypot(...row(a).map((v, d) => v - row(b)[d]));
    const all = places.flatMap((_, a) => places.slice(a + 1).map((_, b) => between(a, a + 1 + b)));
    return [Math.min(...all), Math.max(...all), between(0, 1)];
  };
  const apart = TABLES.map((_, which) => distances(which));

  /** Where token i is in the plane; the copies have the pasted patch's token. */
  const point = (which, i, content, s) => [0, 1].map((axis) => {
    const token = planes[((which * 2 + 0) * PATCHES + content) * 2 + axis];
    return token + s * planes[((which * 2 + 1) * PATCHES + i) * 2 + axis];
  });
  /** The box of the plane that holds all tokens at every scale: as on the page, y grows downwards. */
  const extents = TABLES.map((_, which) => [0, 1].map((axis) => {
    const all = [0, MOST].flatMap((s) => Array.from({ length: PATCHES }, (_, i) => point(which, i, i, s)[axis]));
    return [Math.min(...all), Math.max(...all)];
  }));

  const draw = () => {
    const s = model.get("scale"), which = TABLES.indexOf(model.get("table")), from = model.get("patch");
    scale.set(s);
    table.set(model.get("table"));
    patch.set(from);
    paste(from);

    photo.fit();
    photo.name(t.photo(from));
    const paper = photo.ctx, side = photo.width / GRID;
    paper.imageSmoothingEnabled = false;
    paper.drawImage(sheet, 0, 0, photo.width, photo.height);
    const outline = (i, stroke, width) => {
      const [x, y] = corner(i).map((v) => (v / SIDE) * side);
      paper.strokeStyle = stroke;
      paper.lineWidth = width;
      paper.strokeRect(x, y, side, side);
    };
    places.forEach((i, k) => {
      outline(i, "#fff", 4);
      outline(i, "#00694d", 2);
      const [x, y] = corner(i).map((v) => (v / SIDE) * side);
      badge(paper, k + 1, x + side, y, 8);
    });
    outline(from, "#000", 4.5);
    outline(from, "#fff", 2);

    plane.fit();
    plane.name(t.plane(s.toFixed(2), t.tables[model.get("table")]));
    const { ctx } = plane, [horizontal, vertical] = extents[which], room = 14;
    const unit = Math.min(
      (plane.width - 2 * room) / (horizontal[1] - horizontal[0]),
      (plane.height - 2 * room) / (vertical[1] - vertical[0]));
    const spot = ([x, y]) => [
      plane.width / 2 + (x - (horizontal[0] + horizontal[1]) / 2) * unit,
      plane.height / 2 + (y - (vertical[0] + vertical[1]) / 2) * unit,
    ];
    const content = (i) => (places.includes(i) ? from : i);
    const spots = Array.from({ length: PATCHES }, (_, i) => spot(point(which, i, content(i), s)));
    ctx.strokeStyle = color(box.root, "--dnnl-hair");
    ctx.lineWidth = 0.8;
    ctx.beginPath();
    for (let i = 0; i < PATCHES; i++) {
      for (const next of [i % GRID < GRID - 1 && i + 1, i + GRID < PATCHES && i + GRID]) {
        if (!next) continue;
        ctx.moveTo(...spots[i]);
        ctx.lineTo(...spots[next]);
      }
    }
    ctx.stroke();
    ctx.imageSmoothingEnabled = false;
    spots.forEach(([x, y], i) => ctx.drawImage(sheet, ...corner(i), SIDE, SIDE, x - 6, y - 6, 12, 12));
    // What the table does to the copies: an arrow's shaft from where the token was.
    const origin = spot(point(which, places[0], from, 0));
    ctx.strokeStyle = color(box.root, "--dnnl-position");
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    for (const i of places) {
      ctx.moveTo(...origin);
      ctx.lineTo(...spots[i]);
    }
    ctx.stroke();
    places.forEach((i, k) => badge(ctx, s ? k + 1 : places.length + "×", ...spots[i], s ? 8 : 13));

    const [low, high, first] = apart[which].map((d) => (d * s).toFixed(2));
    says.say(s ? t.says(low, high, s.toFixed(2), place(places[0]), place(places[1]), first) : t.none);
  };
  const redraw = schedule(draw);
  redraw();
  const stops = [
    listen(model, ["scale", "table", "patch"], redraw), onTheme(redraw), stopKeys, redraw.cancel, says.stop,
  ];
  return () => {
    stops.forEach((stop) => stop());
    box.root.remove();
  };
}

export default { render };
