/** @type {typeof import("./en.js").default} */
export default {
  name: "缩放位置表",
  rows: "行数",
  columns: "列数",
  mode: "插值方式 mode",
  corners: "align_corners",
  antialias: "antialias",
  off: "False",
  on: "True",
  old: (h, w) => `旧表，${h} × ${w}，圆点是读取的位置`,
  table: (r, c) => `缩放后的表，${r} × ${c}`,
  map: "选中的一行与其余各行的余弦相似度",
  model: "使用这张表的模型",
  pictures: ["裁剪块", "遮住 60%", "补全：缩放后的表", "补全：全零的表"],
  resized: "缩放后的表",
  zeros: "全零的表",
  error: "被遮住的图像块上的平方误差",
  oldLabel: (h, w, n, r, c) =>
    `${h} × ${w} 的旧网格，以颜色表示，${n} 个圆点是新网格读取的位置；` +
    `方块表示各个旧格在新格 (${r}, ${c}) 中的权重。`,
  tableLabel: (r, c, y, x) =>
    `缩放后的位置表，以颜色表示，${r} × ${c} 格；选中第 ${y} 行、第 ${x} 列。按方向键改选。`,
  mapLabel: (y, x) => `格 (${y}, ${x}) 的那一行与其余各行的余弦相似度，从 −1（深蓝）到 1（黄）。`,
  modelLabel:
    "四幅图：裁剪块；遮住 60% 图像块的裁剪块；模型用缩放后的表补全的结果；用全零的表补全的结果。",
  says: (r, c, y, x, at, n, weights) =>
    `${r} × ${c}：共 ${r * c + 1} 行。新格 (${y}, ${x}) 在旧网格的 (${at}) 处读取：` +
    `${n === 1 ? "只取一个旧行" : `取 ${n} 个旧行，权重${weights}`}。`,
  home: "这正是表自己的网格：什么也不变。",
  measured: (e, z) => `遮住处的平方误差：${e}；换成全零的表：${z}。`,
  unused: (mode) => `align_corners 和 antialias 不适用于 ${mode}。`,
  range: (low, high) => `在 ${low} 与 ${high} 之间`,
  colours: (share) =>
    `颜色相近表示两行相似：红、绿、蓝是这一行在三个主轴上的坐标，主轴取自训练得到的位置表（占方差的 ${share}%）。`,
  caption:
    "相似度图中，深蓝是余弦 −1，黄是 1。白色方块是正权重，黑色方块是负权重。试一试：换一个不是正方形的网格；" +
    "放大时用 nearest，它只是重复旧行；用 bilinear 缩到 4 × 4，antialias 先取 False（有些旧格根本读不到），再换成 True；" +
    "切换 align_corners，看首尾的圆点。放大时，换用几种光滑的插值方式，误差变化很小；去掉位置嵌入，误差就大得多。（只测了一个裁剪块，末几位数字没有意义。）",
};
