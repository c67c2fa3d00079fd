/** @type {typeof import("./en.js").default} */
export default {
  names: {
    cat: "猫",
    coffee: "咖啡",
    rocket: "火箭",
    astronaut: "宇航员",
    galaxies: "星系",
    retina: "视网膜",
    tissue: "组织切片",
    temple: "寺庙",
    flower: "大丽花",
    admiral: "海军将领",
  },
  photograph: "照片",
  own: "你自己的图片",
  choose: "换成你的图片……",
  unread: "这个文件不是浏览器能读的图片。",
};
