/** @type {typeof import("./en.js").default} */
export default {
  name: "位置嵌入表把相同的 token 分开",
  scale: "位置嵌入表的倍数",
  table: "位置嵌入表",
  tables: { trained: "训练得到", sincos: "正余弦", random: "随机" },
  patch: "粘贴的图像块",
  place: (i) => `${i} (${Math.floor(i / 14)}, ${i % 14})`,
  photo: (i) =>
    `照片共 14 × 14 个图像块；图像块 ${i}（第 ${Math.floor(i / 14)} 行、第 ${
      i % 14
    } 列）贴到了八个带编号的位置。按方向键换一个图像块。`,
  plane: (scale, table) =>
    `所有图像块的 token 画在一个平面上，已加上 ${scale} 倍的位置嵌入表（${table}）；八个相同的图像块带有编号。`,
  none: "没有位置嵌入表时，八个相同的图像块是同一个 token：彼此距离都是 0。",
  says: (low, high, scale, one, two, d) =>
    `八个相同的图像块，彼此相距 ${low} 到 ${high}。token 1 与 token 2：${scale} · |P(${one}) − P(${two})| = ${d}，与内容无关。`,
  caption:
    "照片的每个 token 都画成自己的图像块，平面选的是最能把它们摊开的那一个。把位置嵌入表的倍数拖到 0：八个副本重合，照片变成一堆只按内容排列的图像块。再拖大：每个位置都有自己的位移。换一个图像块粘贴：八个副本一起移动，彼此的距离不变。哪一种位置嵌入表能把照片展开？",
};
