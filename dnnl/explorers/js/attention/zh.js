import live from "../live/zh.js";

/** @type {typeof import("./en.js").default} */
export default {
  live,
  name: "类别标记在看哪里",
  maps: "层与注意力头",
  layer: (l) => `层 ${l}`,
  head: (i) => (i == null ? "平均" : `头 ${i}`),
  mapName: (l, i) => (i == null ? `层 ${l}，平均` : `层 ${l}，头 ${i}`),
  photo: "模型看到的",
  photoLabel: (s) =>
    `照片共 ${s.n} 个图像块，遮住了 ${s.hidden} 个；选中第 ${s.patch} 块。按方向键改选。`,
  map: (s) => `注意力：${s.map}`,
  mapLabel: (s) =>
    `类别标记对 ${s.n} 个图像块的注意力，${s.map}：从 0 到 ${s.most}%，最大值在第 ${s.row} 行、第 ${s.column} 列。按方向键改选。`,
  names: "是哪张照片？",
  namesLabel: "每张照片的概率",
  hide: "先遮住哪些图像块",
  kinds: { nothing: "不遮", most: "最受关注的", least: "最不受关注的" },
  count: "遮住几个",
  pick: (s) =>
    `第 ${s.patch} 块（第 ${s.pickRow} 行、第 ${s.pickColumn} 列）分到类别标记 ${s.weight}% 的注意力；如果平均分配，会分到 ${s.plain}%。`,
  self: (s) => `所有图像块合计分到 ${s.patches}%，类别标记自己留下 ${s.own}%。`,
  says: (s) => `${s.n} 个图像块遮住 ${s.hidden} 个，模型认成：${s.guess}（${s.percent}%）。`,
  whole: (s) => `看到整张照片，模型认成：${s.guess}（${s.percent}%）。`,
  caption:
    "比较各个头：它们看的东西不一样。可是，看得最多的，就是最起作用的吗？选“层 0，平均”，先遮住最受关注的 147 个图像块，再遮住最不受关注的 147 个。用鼠标指向图像块、点按它，或用方向键选中它，就能读到它的权重。",
};
