/* What the explorers of position tables share: rows that resemble one another, and where on the grid
   they lie. A table is a Float32Array of rows × dim numbers, the class token's row first. */

/** The inner product of rows i and j of a table. */
function dotRows(table, dim, i, j) {
  let sum = 0;
  for (let d = 0; d < dim; d++) sum += table[i * dim + d] * table[j * dim + d];
  return sum;
}

/** Divide every row by its length; a row of zeros stays. The inner products of two are cosines. */
function unitRows(table, dim) {
  const out = Float32Array.from(table);
  for (let i = 0; i < table.length / dim; i++) {
    const length = Math.sqrt(dotRows(table, dim, i, i));
    if (length > 0) for (let d = i * dim; d < (i + 1) * dim; d++) out[d] /= length;
  }
  return out;
}

/** Cosine similarity of one row to every row, of a table of unit rows. */
function cosines(unit, dim, row) {
  return Float32Array.from({ length: unit.length / dim }, (_, i) => dotRows(unit, dim, row, i));
}

/** The fixed table dnnl.models.vit.sincos_pos_embedding: column code, then row code; no class row. */
function sincosTable(rows, columns, dim) {
  const out = new Float32Array(rows * columns * dim), quarter = dim / 4;
  for (let i = 0; i < rows * columns; i++) {
    [i % columns, Math.floor(i / columns)].forEach((place, axis) => {
      for (let k = 0; k < quarter; k++) {
        const at = i * dim + axis * 2 * quarter + k, angle = place * 10000 ** (-k / quarter);
        out[at] = Math.sin(angle);
        out[at + quarter] = Math.cos(angle);
      }
    });
  }
  return out;
}

/** A number with a true minus sign. */
const signed = (x, digits = 2) => x.toFixed(digits).replace("-", "\u2212");

/** An outline that shows on every colour. */
function outline(ctx, x, y, w, t) {
  for (const [style, width] of [["#fff", 4], ["#000", 2]]) {
    ctx.strokeStyle = style;
    ctx.lineWidth = width;
    ctx.strokeRect(x, y, w, t);
  }
}

/** Pick by pressing and dragging: pick(x, y) in the canvas's units. A finger may still scroll the page
    up and down. Returns what stops it. */
function onPick(pad, pick) {
  const act = (event) => { if (event.type === "pointerdown" || event.buttons & 1) pick(...pad.at(event)); };
  pad.root.style.touchAction = "pan-y pinch-zoom";
  pad.root.style.cursor = "crosshair";
  for (const type of ["pointerdown", "pointermove"]) pad.root.addEventListener(type, act);
  return () => { for (const type of ["pointerdown", "pointermove"]) pad.root.removeEventListener(type, act); };
}

/** Figures side by side where there is room, under each other where there is none. */
function panels(...figures) {
  return h("div", { style: {
    display: "grid", gap: "0.8rem 1.4rem", gridTemplateColumns: "repeat(auto-fit, minmax(min(100%, 14.5rem), 1fr))",
  } }, figures);
}

/** A figure under its title. */
function panel(title, ...parts) {
  const name = h("p", { style: { fontWeight: 600, marginBottom: "0.25rem" } }, title);
  return { root: h("div", { style: { minWidth: 0 } }, name, parts), title: (text) => { name.textContent = text; } };
}
