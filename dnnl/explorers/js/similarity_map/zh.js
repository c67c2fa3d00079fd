/** @type {typeof import("./en.js").default} */
export default {
  name: "位置之间的相似度",
  table: "位置表",
  tables: { trained: "训练得到", sincos: "正余弦", random: "随机" },
  scale: "颜色范围",
  scales: { full: "−1 到 1", own: "最小值到 1" },
  row: "行",
  column: "列",
  classRow: "类别 token的那一行",
  one: "选中的一行与其余各行",
  all: "每一行与其余各行",
  patch: (t, r, c) => `图像块 (${r}, ${c})，即表中第 ${t} 行`,
  classToken: "类别 token的那一行，即表中第 0 行",
  says: (what, near, rest, most, value, cls) =>
    `选中：${what}。余弦相似度：与相邻图像块平均 ${near}，` +
    `与其余图像块平均 ${rest}；与图像块 (${most}) 最相似，为 ${value}；与类别 token那一行的相似度为 ${cls}。`,
  saysClass: (low, high, most) =>
    "选中：类别 token的那一行，即表中第 0 行。" +
    `它与各图像块的余弦相似度在 ${low} 与 ${high} 之间，与图像块 (${most}) 最相似。`,
  saysZero:
    "选中：类别 token的那一行，即表中第 0 行。正余弦表的这一行全为零，没有方向，与任何一行的相似度都记为 0。",
  under: (r, c, v) => `指针所在：图像块 (${r}, ${c})，${v}`,
  map: (what) =>
    `14 × 14 个图像块的网格，颜色表示与所选那一行的相似度。选中：${what}。按方向键改选。`,
  overview: "全部相似度图：每个图像块的位置上画着它自己的那一张，选中的一张带边框。",
  bar: (low) => `颜色从 ${low}（深蓝）到 1（黄）。`,
  caption: "选一个图像块：在图上点按，拖动滑块，或者选中大图，再按方向键。" +
    "再比较三张表：在哪一张里，图像块与四面八方的邻居都相似？在哪一张里，只与同行、同列的相似？又在哪一张里，只与自己相似？" +
    "类别 token的那一行另当别论：它在网格上没有位置。",
};
