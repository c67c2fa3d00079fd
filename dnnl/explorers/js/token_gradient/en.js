export default {
  name: "Gradients that flow into one class token",
  loss: "Loss of the batch",
  sum: "sum",
  mean: "mean",
  copies: "Copies of the token by",
  images: "Images in the batch",
  include: (/** @type {string} */ name) => `${name} in the batch`,
  names: {
    cat: "cat",
    coffee: "coffee",
    rocket: "rocket",
    astronaut: "astronaut",
    retina: "retina",
    admiral: "admiral",
  },
  strip: (/** @type {string} */ name, /** @type {string} */ length) =>
    `gradient of ${name}: 64 numbers, length ${length}`,
  total: "token",
  totalStrip: (/** @type {string} */ length) =>
    `gradient that the token receives: 64 numbers, length ${length}`,
  plane: (/** @type {number} */ n, /** @type {string} */ length) =>
    `${n} arrows, one after another, from the origin to their sum; the token's gradient has length ${length}`,
  memory: {
    expand: (/** @type {number} */ b) => `expand: ${b} views of one row in memory, 256 bytes. `,
    repeat: (/** @type {number} */ b) => `repeat: ${b} rows in memory, ${256 * b} bytes. `,
  },
  same: "The gradient is the same by either.",
  says: (
    /** @type {number} */ b,
    /** @type {"sum" | "mean"} */ how,
    /** @type {string} */ length,
  ) => `A batch of ${b}: the token receives the ${how}, of length ${length}.`,
  one: "A batch needs at least one image.",
  caption: (/** @type {number} */ share) =>
    `Real gradients from a small untrained ViT, one photograph a row: each strip holds the 64 numbers that image adds (purple: negative, orange: positive). Switch images on and off. The arrows show the same addition in a plane that keeps ${share} % of it. Then change the sum to a mean: same direction, other length. Then expand to repeat: nothing changes but memory.`,
};
