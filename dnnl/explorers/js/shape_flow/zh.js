/** @type {typeof import("./en.js").default} */
export default {
  name: "从图像到编码器的形状",
  preset: "预设",
  presets: {
    own: "自定",
    b16: "ViT-B/16，224",
    b384: "ViT-B/16，384",
    l16: "ViT-L/16，224",
    h14: "ViT-H/14，224",
    deit: "DeiT-B，蒸馏",
    registers: "ViT-B/16，4 个寄存器 token",
    chapter: "本章的模型",
    odd: "不能整除的图像",
  },
  height: "高 H",
  width: "宽 W",
  patch_size: "图像块边长 P",
  in_channels: "通道数 C",
  embed_dim: "token 宽度 D",
  num_prefix_tokens: "前缀 token 数",
  image: "图像",
  patches: "展平的图像块",
  tokens: "token X",
  prefix: (
    p,
  ) => (p === 0 ? "没有前缀 token" : p === 1 ? "加上类别标记" : `加上 ${p} 个前缀 token`),
  sequence: "加上位置嵌入：Z",
  attention: "每个头的注意力",
  parameters: (formula, n) => `${formula} = ${n} 个参数`,
  count: (rows, columns, n) => `N = ${rows} · ${columns} = ${n}`,
  pairs: (t, n) => `${t}² = ${n} 个权重`,
  parts: "参数占比：投影（蓝）、前缀（橙）、位置嵌入（绿）。",
  wrong: "ShapeError",
  conv: (rows, columns, down, across, lost, share) =>
    `直接用 Conv2d，它会照用 ${rows} × ${columns} 的网格，永远读不到${
      [down && ` ${down} 行`, across && ` ${across} 列`].filter(Boolean).join("和")
    }：${lost} 个像素，占图像的 ${share}%。`,
  small: "这一次，直接用 Conv2d 也会报错：卷积核比图像还大。",
  fits: (size) => `${size} 就能整除。`,
  picture: (h, w, p, rows, columns) =>
    `${h} × ${w} 像素的图像，图像块 ${p} × ${p}：完整的图像块有 ${rows} 行 ${columns} 列。`,
  says: (n, t, d, total) =>
    `${n} 个图像块；编码器读入 ${t} 个宽度为 ${d} 的 token。输入模块共有 ${total} 个参数。`,
  refuses: "这些尺寸对不上，模块拒绝接受。",
  caption:
    "把 P 减半，看 N 和注意力的变化。把 D 加倍，看参数的变化。把图像加大一个像素：网格之外的部分，就是带步长的卷积会悄悄丢掉的像素。",
};
