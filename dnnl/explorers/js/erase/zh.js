import live from "../live/zh.js";

/** @type {typeof import("./en.js").default} */
export default {
  live,
  name: "擦除与重建",
  seen: "模型看到的",
  seenLabel: (s) =>
    `照片共 ${s.n} 个图像块，已擦去 ${s.count} 个。拖动即可擦去。键盘：方向键移动，空格键擦去或恢复。`,
  filled: "模型补全的",
  filledLabel: (s) => `擦去的 ${s.count} 个图像块已由模型补全，位置嵌入：${s.positions}。`,
  original: "原照片",
  positions: "位置嵌入",
  kinds: { true: "原样", off: "关闭（全零）", shuffled: "打乱" },
  brush: "橡皮",
  wide: (v) => `${v} × ${v}`,
  half: "随机擦去一半",
  restore: "恢复",
  errors: "擦除处的平方误差，三种位置嵌入各算一次",
  errorTitle: (s) => `擦去的 ${s.count} 个图像块上的平方误差，三种位置嵌入各算一次`,
  says: (s) =>
    `${s.n} 个图像块擦去了 ${s.count} 个；平方误差 ${s.error}（位置嵌入：${s.positions}）。类别标记认成：${s.guess}（${s.percent}%）。`,
  whole: (s) => `什么也没擦。类别标记认成：${s.guess}（${s.percent}%）。`,
  at: (row, column, hidden) => `第 ${row} 行、第 ${column} 列：${hidden ? "已擦去" : "可见"}。`,
  caption:
    "在第一幅图上拖动，擦去图像块；从空缺处拖起则恢复。模型就在本页中运行，把空缺补上。没有位置嵌入，它分不清各个空缺，只好处处填上同一个图像块；位置嵌入打乱之后，颜色对了，地方却错了。也可以换上你自己的图片（拖到这里就行）：模型只用十张照片训练过，只会从那十个名字里给它挑一个。",
};
