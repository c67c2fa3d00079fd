/** @type {typeof import("./en.js").default} */
export default {
  name: "汇入同一个类别标记的梯度",
  loss: "批量的损失",
  sum: "求和",
  mean: "取平均",
  copies: "复制类别标记的方式",
  images: "批量中的图像",
  include: (name) => `批量中包含${name}`,
  names: {
    cat: "猫",
    coffee: "咖啡",
    rocket: "火箭",
    astronaut: "宇航员",
    retina: "视网膜",
    admiral: "海军将领",
  },
  strip: (name, length) => `${name}的梯度：64 个数，长度 ${length}`,
  total: "类别标记",
  totalStrip: (length) => `类别标记收到的梯度：64 个数，长度 ${length}`,
  plane: (n, length) => `${n} 个箭头首尾相接，从原点指向它们的和；类别标记的梯度长度为 ${length}`,
  memory: {
    expand: (b) => `expand：内存中一行，${b} 个视图，256 字节。`,
    repeat: (b) => `repeat：内存中 ${b} 行，${256 * b} 字节。`,
  },
  same: "两种方式得到的梯度相同。",
  says: (b, how, length) =>
    `批量大小 ${b}：类别标记收到的是${how === "sum" ? "梯度之和" : "梯度的平均"}，长度 ${length}。`,
  one: "批量里至少要有一幅图像。",
  caption: (share) =>
    `这些都是真实的梯度，来自一个未训练的小 ViT，每行一张照片：色条是这幅图像贡献的 64 个数（紫色为负，橙色为正）。把图像一幅幅关掉、打开看看。箭头在一个平面上画出同样的加法，这个平面保留了其中的 ${share}%。再把求和换成取平均：方向不变，长度改变。最后把 expand 换成 repeat：除了内存，什么都没变。`,
};
