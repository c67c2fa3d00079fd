export default {
  name: "Resize the table of positions",
  rows: "rows",
  columns: "columns",
  mode: "mode",
  corners: "align_corners",
  antialias: "antialias",
  off: "False",
  on: "True",
  old: (h, w) => `Old table, ${h} × ${w}, read at the dots`,
  table: (r, c) => `Resized table, ${r} × ${c}`,
  map: "Cosine of the picked row with all",
  model: "The model with this table",
  pictures: ["the crop", "60 % hidden", "filled in, table resized", "filled in, all zeros"],
  resized: "resized",
  zeros: "all zeros",
  error: "squared error on the hidden patches",
  oldLabel: (h, w, n, r, c) =>
    `The old grid of ${h} by ${w} cells in colours, with ${n} points where the new one ` +
    `reads it; squares show the weights of the old cells that make up the new cell (${r}, ${c}).`,
  tableLabel: (r, c, y, x) =>
    `The resized table in colours, ${r} by ${c} cells; picked: row ${y}, column ${x}. ` +
    "Arrow keys move the picked cell.",
  mapLabel: (y, x) =>
    `Cosine similarity of the row of cell (${y}, ${x}) with all others, from −1 (dark blue) to 1 (yellow).`,
  modelLabel:
    "Four pictures: the crop; with 60 per cent of its patches hidden; with these filled in by the model, with the resized table, and with a table of zeros.",
  says: (r, c, y, x, at, n, weights) =>
    `${r} × ${c}: ${r * c + 1} rows. New cell (${y}, ${x}) reads the old grid at ` +
    `(${at}): ${n === 1 ? "one old row" : `${n} old rows, with weights ${weights}`}.`,
  home: " This is the table's own grid: nothing changes.",
  measured: (e, z) => ` Squared error on the hidden patches: ${e}; with a table of zeros: ${z}.`,
  unused: (mode) => ` align_corners and antialias do not apply to ${mode}.`,
  range: (low, high) => `from ${low} to ${high}`,
  colours: (share) =>
    `Equal colours mean similar rows: red, green and blue are a row's places along the three main axes ` +
    `of the trained table (${share} % of its variance). `,
  caption:
    "Below, dark blue is a cosine of −1, yellow 1. White squares are positive weights, black ones negative. " +
    "Try: another grid that is not square; nearest, which on a larger grid only repeats rows; " +
    "bilinear on 4 × 4 with antialias False, which never looks at some of the old cells, and then True; " +
    "the first and last dots when align_corners changes. On larger grids the error moves little between the smooth " +
    "modes, and a lot without positions. (One crop is measured: the last digits mean nothing.)",
};
