export default {
  name: "Patch grid",
  size: "Patch size P",
  index: "Patch i",
  photo: (s) =>
    `Photograph under a grid of ${s.rows} × ${s.cols} patches; patch ${s.index} is picked. Arrow keys move the pick.`,
  strip: (s) =>
    `All ${s.n} patches in a row, in the order of the sequence; number ${s.index} is marked.`,
  near: (s) => `The patches before and after number ${s.index} in the sequence`,
  patch: "patch",
  channels: ["red", "green", "blue"],
  numbers: (s) => `Its ${s.P} · ${s.P} · 3 = ${s.width} numbers`,
  more: (n) => `… and ${n} more`,
  where: (s) =>
    `Patch ${s.index}: row ${s.row}, column ${s.col} (${s.row} · ${s.cols} + ${s.col} = ${s.index})`,
  image: "image",
  patches: "patches",
  tokens: "tokens",
  count: (s) => `N = ${s.rows} · ${s.cols} = ${s.n}`,
  pairs: (s) => `N² = ${s.pairs} pairs for attention`,
  none: "No pixel is lost.",
  lost: (s) =>
    `${s.P} does not divide ${s.odd}: ${s.lost} pixels at the border (${s.percent} %) belong to no patch. The chapter's modules refuse such a size.`,
  caption:
    "Try: drag i from 0 and watch the reading order; halve P and compare N²; choose a P that does not divide 224. Point at the photograph, tap it, or use the arrow keys on it.",
};
