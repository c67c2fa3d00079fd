export default {
  name: "Pipeline of the input module",
  step: "Step",
  steps: {
    image: "image",
    patches: "patches",
    tokens: "projection",
    class_token: "class token",
    positions: "+ positions",
    dropout: "dropout",
  },
  back: "Back",
  next: "Next",
  order: "Order of the steps",
  orders: {
    class_first: "class token, + positions, dropout (the module)",
    positions_first: "+ positions, class token with its row, dropout",
    sliced: "+ the first N rows of the table, class token, dropout",
    dropout_first: "class token, dropout, + positions",
  },
  token: "Token i",
  before: "before",
  used: "what is added",
  after: "after",
  parameter: {
    tokens: "",
    class_token: "x_cls, a parameter",
    positions: "rows of the table P",
    dropout: "what is kept",
  },
  folded: "x_cls + P₀",
  says: {
    image: () => "The image: 3 channels of 64 × 64 pixels.",
    patches: (s) => `${s.N} patches of 16 · 16 · 3 = 768 numbers, one to a row, read row by row.`,
    tokens: (s) => `One linear map turns each row of 768 numbers into ${s.D}: a token.`,
    class_token: (s) =>
      `One row more, in front: ${s.N} tokens become ${s.N + 1}. The others are as before.`,
    positions: (s) =>
      `Every one of the ${s.rows} rows gets its own row of the table. The shape stays.`,
    sliced: (s) =>
      `The table has ${s.N + 1} rows; cut to ${s.N}, each patch gets the row before its own.`,
    dropout: (s) =>
      `In training, ${s.dropped} of ${s.total} numbers are set to 0; the rest are divided by ${
        1 - s.p
      }.`,
  },
  row: {
    class: "Token 0, the class token, has no patch",
    patch: (i, r, c) => `Token ${i}: patch ${i - 1}, row ${r}, column ${c}`,
  },
  absent: "Token 0, the class token, comes in a later step.",
  starts: (whose, v) => `${whose}; begins ${v}, …`,
  same: "At the end: the same sequence as the module's, number by number.",
  differs: (s) =>
    `At the end ${s.rows} of ${s.of} tokens differ from the module's, by up to ${s.most}.`,
  why: {
    class_first: "",
    positions_first: "Addition does not ask when: the class token has its row of the table inside.",
    sliced: "No error, and yet every patch has its neighbour's row, and the class token has none.",
    dropout_first:
      "The positions are never hidden now: where dropout left 0, the position stands alone.",
  },
  panel: (name, shape) => `Heat map: ${name}, ${shape}`,
  picture: "The photograph; the patch of the picked token is outlined",
  caption:
    "Try: step from the image to the sequence and watch the shape; then choose another order and see whether the result at the end changes. Each row of a heat map is a token, dark is −2, bright 2; at its left, in colour, what is in it: class token (orange), patch (blue), position (green). Pick a row by a tap or with the arrow keys.",
};
