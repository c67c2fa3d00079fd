/** @type {typeof import("./en.js").default} */
export default {
  name: "自测",
  right: "对。",
  wrong: "不对。",
  see: "实验见：",
  hint: "选一个答案。每个选项都有解释，可以改选。",
};
