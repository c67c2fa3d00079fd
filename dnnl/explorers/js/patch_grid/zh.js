/** @type {typeof import("./en.js").default} */
export default {
  name: "图像块网格",
  size: "图像块边长 P",
  index: "图像块 i",
  photo: (s) =>
    `照片上盖着 ${s.rows} × ${s.cols} 的图像块网格；选中第 ${s.index} 块。按方向键改选。`,
  strip: (s) => `全部 ${s.n} 个图像块按序列顺序排成一行，标出了第 ${s.index} 块。`,
  near: (s) => `序列中第 ${s.index} 块前后的图像块`,
  patch: "图像块",
  channels: ["红", "绿", "蓝"],
  numbers: (s) => `这一块的 ${s.P} · ${s.P} · 3 = ${s.width} 个数`,
  more: (n) => `……还有 ${n} 个`,
  where: (s) =>
    `第 ${s.index} 块：第 ${s.row} 行、第 ${s.col} 列（${s.row} · ${s.cols} + ${s.col} = ${s.index}）`,
  image: "图像",
  patches: "图像块",
  tokens: "token",
  count: (s) => `N = ${s.rows} · ${s.cols} = ${s.n}`,
  pairs: (s) => `注意力要算 N² = ${s.pairs} 对`,
  none: "一个像素也没丢。",
  lost: (s) =>
    `${s.P} 不能整除 ${
      s.odd.replace(", ", " 和 ")
    }：边缘有 ${s.lost} 个像素（${s.percent}%）不属于任何图像块。本章的模块不接受这样的尺寸。`,
  caption:
    "试一试：从 0 开始拖动 i，看阅读顺序；把 P 减半，比较 N²；选一个不能整除 224 的 P。用鼠标指向照片、点按照片，或在照片上按方向键，都可以选图像块。",
};
