/**
 * @file The chapter's model (dnnl.chapter_model.ChapterModel) in the page: its forward pass in
 *   float32.
 *
 *   Matrices are flat Float32Arrays, row by row, as PyTorch has them. Every product of the model
 *   (linear layers, attention scores, attention outputs) goes through one kernel, `products`.
 */

import { halfToFloat } from "../lib/numbers.js";

/**
 * Rows of numbers in an array.
 *
 * @typedef {object} Rows
 * @property {Float32Array} data
 * @property {number} at where row 0 starts
 * @property {number} step how far it is from row to row
 */

/**
 * y[i, j] = scale * (a[i] · b[j]) + bias[j], for n rows of a and m rows of b.
 *
 * The sums run two rows by four at a time, in registers: three times as fast as one by one.
 *
 * @param {Rows} a
 * @param {Rows} b
 * @param {Rows} y
 * @param {number} n
 * @param {number} m
 * @param {number} width how many numbers a row of a and of b has
 * @param {Float32Array | null} bias
 */
function products(a, b, y, n, m, width, bias, scale = 1) {
  const A = a.data, B = b.data, Y = y.data;
  const n2 = n - (n % 2), m4 = m - (m % 4);
  for (let j = 0; j < m4; j += 4) {
    const b0 = b.at + j * b.step, b1 = b0 + b.step, b2 = b1 + b.step, b3 = b2 + b.step;
    const c0 = bias ? bias[j] : 0, c1 = bias ? bias[j + 1] : 0;
    const c2 = bias ? bias[j + 2] : 0, c3 = bias ? bias[j + 3] : 0;
    for (let i = 0; i < n2; i += 2) {
      const a0 = a.at + i * a.step, a1 = a0 + a.step;
      let s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
      for (let k = 0; k < width; k++) {
        const x0 = A[a0 + k], x1 = A[a1 + k];
        const w0 = B[b0 + k], w1 = B[b1 + k], w2 = B[b2 + k], w3 = B[b3 + k];
        s00 += x0 * w0;
        s01 += x0 * w1;
        s02 += x0 * w2;
        s03 += x0 * w3;
        s10 += x1 * w0;
        s11 += x1 * w1;
        s12 += x1 * w2;
        s13 += x1 * w3;
      }
      const y0 = y.at + i * y.step + j, y1 = y0 + y.step;
      Y[y0] = s00 * scale + c0;
      Y[y0 + 1] = s01 * scale + c1;
      Y[y0 + 2] = s02 * scale + c2;
      Y[y0 + 3] = s03 * scale + c3;
      Y[y1] = s10 * scale + c0;
      Y[y1 + 1] = s11 * scale + c1;
      Y[y1 + 2] = s12 * scale + c2;
      Y[y1 + 3] = s13 * scale + c3;
    }
  }
  for (let i = 0; i < n; i++) { // the last row and columns, where the blocks do not fit
    for (let j = i < n2 ? m4 : 0; j < m; j++) {
      const a0 = a.at + i * a.step, b0 = b.at + j * b.step;
      let sum = 0;
      for (let k = 0; k < width; k++) sum += A[a0 + k] * B[b0 + k];
      Y[y.at + i * y.step + j] = sum * scale + (bias ? bias[j] : 0);
    }
  }
}

/**
 * The error function to 2e-7: Abramowitz and Stegun, formula 7.1.26.
 *
 * @param {number} x
 */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const p = t *
    (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const y = 1 - p * Math.exp(-x * x);
  return x < 0 ? -y : y;
}

/**
 * GELU, in place: x Φ(x).
 *
 * @param {Float32Array} x
 */
function gelu(x) {
  for (let i = 0; i < x.length; i++) x[i] *= 0.5 * (1 + erf(x[i] * Math.SQRT1_2));
}

/**
 * Softmax of each of n rows of m numbers, in place.
 *
 * @param {Float32Array} x
 * @param {number} n
 * @param {number} m
 */
function softmax(x, n, m) {
  for (let row = 0; row < n * m; row += m) {
    let most = -Infinity, sum = 0;
    for (let i = row; i < row + m; i++) if (x[i] > most) most = x[i];
    for (let i = row; i < row + m; i++) sum += x[i] = Math.exp(x[i] - most);
    const each = 1 / sum;
    for (let i = row; i < row + m; i++) x[i] *= each;
  }
}

/**
 * Layer norm of each row of x into y; rows are as long as the weight.
 *
 * @param {Float32Array} x
 * @param {Float32Array} weight
 * @param {Float32Array} bias
 * @param {number} eps
 * @param {Float32Array} y
 */
function layerNorm(x, weight, bias, eps, y) {
  const d = weight.length;
  for (let row = 0; row < x.length; row += d) {
    let mean = 0, square = 0;
    for (let i = 0; i < d; i++) mean += x[row + i];
    mean /= d;
    for (let i = 0; i < d; i++) square += (x[row + i] - mean) ** 2;
    const each = 1 / Math.sqrt(square / d + eps);
    for (let i = 0; i < d; i++) y[row + i] = (x[row + i] - mean) * each * weight[i] + bias[i];
  }
}

/**
 * x += y, element by element.
 *
 * @param {Float32Array} x
 * @param {Float32Array} y
 */
function accumulate(x, y) {
  for (let i = 0; i < x.length; i++) x[i] += y[i];
}

/**
 * What dnnl.explorers.live.pack says of the weights.
 *
 * @typedef {object} Index
 * @property {Record<string, any>} config
 * @property {string[]} photographs the names of the logits
 * @property {[name: string, shape: number[], packing: "int8" | "float16"][]} tensors
 */

/**
 * The tensors of a packed model, in float32. A tensor in int8 is preceded by the float16 scales of
 * its rows.
 *
 * @param {Uint8Array} bytes one tensor after the other
 * @param {Index} index
 */
export function unpack(bytes, index) {
  /** @type {Record<string, Float32Array>} */
  const weights = {};
  let at = 0;
  const take = (/** @type {number} */ length) => bytes.subarray(at, at += length);
  for (const [name, shape, packing] of index.tensors) {
    const length = shape.reduce((a, b) => a * b, 1);
    if (packing === "float16") {
      weights[name] = halfToFloat(take(2 * length));
      continue;
    }
    const width = /** @type {number} */ (shape.at(-1)), rows = length / width;
    const scales = halfToFloat(take(2 * rows)), data = take(length);
    const signed = new Int8Array(data.buffer, data.byteOffset, length);
    weights[name] = Float32Array.from(signed, (v, i) => v * scales[Math.floor(i / width)]);
  }
  return weights;
}

export class ChapterVit {
  /**
   * @param {Uint8Array} bytes the packed weights
   * @param {Index} index
   */
  constructor(bytes, index) {
    const { config } = index;
    /** @type {[number, number]} */
    this.image_size = config.image_size;
    /** @type {[number, number]} */
    this.patch_size = config.patch_size;
    /** @type {number} */
    this.embed_dim = config.embed_dim;
    /** @type {number} */
    this.num_heads = config.num_heads;
    /** @type {number} */
    this.num_layers = config.num_layers;
    /** @type {number} */
    this.hidden_dim = config.hidden_dim;
    /** @type {number} */
    this.eps = config.eps;
    /** @type {number} */
    this.mean = config.mean;
    /** @type {number} */
    this.std = config.std;
    this.photographs = index.photographs;
    this.weights = unpack(bytes, index);
    /** The model's own table of positions, (1 + N) × D, class row first. */
    this.table = this.weights["vit.backbone.embedding.pos_embed.pos_embed"];
    /** @type {Record<string, Float32Array>} */
    this.buffers = {};
  }

  /** A reused array: what is in it lasts until the next forward pass. */
  buffer(name, length) {
    if (this.buffers[name]?.length !== length) this.buffers[name] = new Float32Array(length);
    return this.buffers[name];
  }

  /** y = x Wᵀ + b for every row of x. */
  linear(x, name, y) {
    const bias = this.weights[`${name}.bias`], weight = this.weights[`${name}.weight`];
    const out = bias.length, width = weight.length / out;
    const rows = (data, step) => ({ data, at: 0, step });
    products(rows(x, width), rows(weight, width), rows(y, out), x.length / width, out, width, bias);
    return y;
  }

  norm(x, name, y) {
    layerNorm(x, this.weights[`${name}.weight`], this.weights[`${name}.bias`], this.eps, y);
    return y;
  }

  /** Standardised patches (N, 3·P·P), in the order channel, row, column, of an image (3, H, W) in [0, 1]. */
  patchify(image, height, width) {
    const [p, q] = this.patch_size, size = 3 * p * q, rows = height / p, columns = width / q;
    const y = this.buffer("input", rows * columns * size);
    let at = 0;
    for (let n = 0; n < rows * columns; n++) {
      const top = Math.floor(n / columns) * p, left = (n % columns) * q;
      for (let c = 0; c < 3; c++) {
        for (let r = top; r < top + p; r++) {
          for (let s = left; s < left + q; s++) {
            y[at++] = (image[(c * height + r) * width + s] - this.mean) / this.std;
          }
        }
      }
    }
    return y;
  }

  /** Multi-head self-attention of normed rows x (T, D); the weights (heads, T, T) too, if `keep`. */
  attention(x, name, keep) {
    const d = this.embed_dim, t = x.length / d, heads = this.num_heads, w = d / heads;
    const qkv = this.linear(x, `${name}.qkv`, this.buffer("qkv", 3 * t * d));
    const y = this.buffer("mixed", t * d), values = this.buffer("values", t * w);
    const kept = keep ? new Float32Array(heads * t * t) : null;
    for (let h = 0; h < heads; h++) {
      const scores = kept
        ? kept.subarray(h * t * t, (h + 1) * t * t)
        : this.buffer("scores", t * t);
      const part = (i) => ({ data: qkv, at: i * d + h * w, step: 3 * d });
      products(part(0), part(1), { data: scores, at: 0, step: t }, t, t, w, null, 1 / Math.sqrt(w));
      softmax(scores, t, t);
      for (let i = 0; i < t; i++) { // values by columns: they are the rows of a product now
        for (let j = 0; j < w; j++) values[j * t + i] = qkv[i * 3 * d + 2 * d + h * w + j];
      }
      products(
        { data: scores, at: 0, step: t },
        { data: values, at: 0, step: t },
        { data: y, at: h * w, step: d },
        t,
        w,
        t,
        null,
      );
    }
    return [this.linear(y, `${name}.proj`, this.buffer("branch", t * d)), kept];
  }

  /**
   * One forward pass.
   *
   * @typedef {object} Options
   * @property {Uint8Array | null} [mask] N numbers, not 0 where a patch is hidden
   * @property {Float32Array} [table] positions in place of the model's own, (1 + N) × D
   * @property {boolean} [attention] whether the attention weights are kept
   * @property {boolean} [decode] whether patches are filled in
   *
   * @param {Float32Array} image (3, height, width) in [0, 1]
   * @param {number} height
   * @param {number} width
   * @param {Options} [options]
   * @returns target (N, 3·P·P): the standardised patches; patches: the reconstruction, alike (null
   *   without decode); tokens (1 + N, D); logits (K); attention: for each layer the weights
   *   (heads, T, T). All but the attention are overwritten by the next pass.
   */
  forward(image, height, width, options = {}) {
    const { mask = null, table = this.table, attention = false, decode = true } = options;
    const d = this.embed_dim, names = "vit.backbone.";
    const target = this.patchify(image, height, width);
    const n = target.length / (3 * this.patch_size[0] * this.patch_size[1]), t = n + 1;
    if (table.length !== t * d) {
      throw new RangeError(`${table.length / d} positions for ${t} tokens`);
    }

    const x = this.buffer("tokens", t * d);
    this.linear(target, `${names}embedding.patch_embed.proj`, x.subarray(d));
    for (let i = 0; mask && i < n; i++) if (mask[i]) x.set(this.weights.mask_token, (i + 1) * d);
    x.set(this.weights[`${names}embedding.add_cls_token.cls_token`]);
    accumulate(x, table);

    const normed = this.buffer("normed", t * d), kept = [];
    for (let i = 0; i < this.num_layers; i++) {
      const layer = `${names}encoder.layers.${i}.`;
      const [mixed, weights] = this.attention(
        this.norm(x, `${layer}norm1`, normed),
        `${layer}attn`,
        attention,
      );
      accumulate(x, mixed);
      if (attention) kept.push(weights);
      const hidden = this.buffer("hidden", t * this.hidden_dim);
      gelu(this.linear(this.norm(x, `${layer}norm2`, normed), `${layer}mlp.net.0`, hidden));
      accumulate(x, this.linear(hidden, `${layer}mlp.net.3`, this.buffer("branch", t * d)));
    }
    const tokens = this.norm(x, `${names}encoder.norm`, normed);
    const logits = this.linear(
      tokens.subarray(0, d),
      "vit.head.head",
      this.buffer("logits", this.photographs.length),
    );
    const patches = decode
      ? this.linear(tokens.subarray(d), "decoder", this.buffer("patches", target.length))
      : null;
    return { target, patches, tokens, logits, attention: kept };
  }
}

/**
 * Probabilities from logits.
 *
 * @param {Float32Array} logits
 */
export function probabilities(logits) {
  const p = Float32Array.from(logits);
  softmax(p, 1, p.length);
  return p;
}

/**
 * The mean squared error of patches on the hidden ones (NaN if none is hidden).
 *
 * @param {Float32Array} patches
 * @param {Float32Array} target
 * @param {Uint8Array} mask
 */
export function hiddenError(patches, target, mask) {
  const size = target.length / mask.length;
  let sum = 0, count = 0;
  for (let i = 0; i < mask.length; i++) {
    if (!mask[i]) continue;
    for (let j = i * size; j < (i + 1) * size; j++) sum += (patches[j] - target[j]) ** 2;
    count += size;
  }
  return sum / count;
}
