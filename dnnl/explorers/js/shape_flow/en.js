export default {
  name: "Shapes from the image to the encoder",
  preset: "Sizes of",
  presets: {
    own: "your own choice",
    b16: "ViT-B/16 at 224",
    b384: "ViT-B/16 at 384",
    l16: "ViT-L/16 at 224",
    h14: "ViT-H/14 at 224",
    deit: "DeiT-B, distilled",
    registers: "ViT-B/16, 4 registers",
    chapter: "the chapter’s model",
    odd: "an image that does not fit",
  },
  height: "Height H",
  width: "Width W",
  patch_size: "Patch side P",
  in_channels: "Channels C",
  embed_dim: "Token width D",
  num_prefix_tokens: "Prefix tokens",
  image: "image",
  patches: "flat patches",
  tokens: "tokens X",
  prefix: (
    p,
  ) => (p === 0 ? "no prefix token" : p === 1 ? "with class token" : `with ${p} prefix tokens`),
  sequence: "with positions: Z",
  attention: "attention, each head",
  parameters: (formula, n) => `${formula} = ${n} parameters`,
  count: (rows, columns, n) => `N = ${rows} · ${columns} = ${n}`,
  pairs: (t, n) => `${t}² = ${n} weights`,
  parts: "Shares of the parameters: projection (blue), prefix (orange), positions (green).",
  wrong: "ShapeError",
  conv: (rows, columns, down, across, lost, share) =>
    `A bare Conv2d would go on with a grid of ${rows} × ${columns} and never read ${
      [down && `${down} rows`, across && `${across} columns`].filter(Boolean).join(" and ")
    }: ${lost} pixels, ${share} % of the image.`,
  small: "Even a bare Conv2d refuses: its kernel is larger than the image.",
  fits: (size) => ` ${size} would fit.`,
  picture: (h, w, p, rows, columns) =>
    `An image of ${h} by ${w} pixels under patches of ${p} by ${p}: ${rows} rows and ${columns} columns of whole patches.`,
  says: (n, t, d, total) =>
    `${n} patches; the encoder reads ${t} tokens of width ${d}. The input module has ${total} parameters.`,
  refuses: "These sizes do not fit: the module refuses them.",
  caption:
    "Halve P and watch N and the attention. Double D and watch the parameters. Make the image one pixel larger: what lies outside the grid is what a strided convolution would drop in silence.",
};
