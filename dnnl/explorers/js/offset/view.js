/** @file Offset: one patch in eight places is one token, until a table of positions is added. */

import { slider, toggle } from "../lib/controls.js";
import { color, frame, language, onTheme, schedule, statusLine, textsIn } from "../lib/dom.js";
import { canvas, outline, rgb, sheetOf } from "../lib/draw.js";
import { gridPad } from "../lib/grid_pad.js";
import { bytes, listen, put } from "../lib/model.js";
import { halfToFloat } from "../lib/numbers.js";
import { distances, extent, point } from "./compute.js";

/** @import { Texts, View } from "../lib/types.d.ts" */

const GRID = 14, SIDE = 4, PATCHES = GRID * GRID, DIM = 64, MOST = 1.5;
const TABLES = /** @type {const} */ (["trained", "sincos", "random"]);
const GREEN = "#00694d";

/**
 * A number in a disc.
 *
 * @param {CanvasRenderingContext2D} ctx
 * @param {string | number} text
 * @param {number} x
 * @param {number} y
 * @param {number} radius
 */
function badge(ctx, text, x, y, radius) {
  ctx.fillStyle = GREEN;
  ctx.strokeStyle = "#fff";
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
  ctx.fill();
  ctx.stroke();
  ctx.fillStyle = "#fff";
  ctx.font = `600 ${radius * 1.35}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillText(String(text), x, y + 0.5);
}

/**
 * The upper left corner of a patch in the photograph.
 *
 * @param {number} i
 * @returns {[number, number]}
 */
const corner = (i) => [(i % GRID) * SIDE, Math.floor(i / GRID) * SIDE];

/** @param {Texts<typeof import("./en.js").default>} texts */
export default (texts) => ({
  /** @param {View} view */
  render({ model, el }) {
    const t = textsIn(texts, language(model, el));
    /** @type {number[]} */
    const places = model.get("_places");
    const photograph = rgb(bytes(model, "_pixels"), GRID * SIDE, GRID * SIDE);
    const rows = halfToFloat(bytes(model, "_rows")), planes = halfToFloat(bytes(model, "_plane"));
    const tables = TABLES.map((name, which) => {
      const plane = (/** @type {number} */ i) =>
        planes.subarray(2 * PATCHES * (2 * which + i), 2 * PATCHES * (2 * which + i + 1));
      const [tokens, offsets] = [plane(0), plane(1)];
      const length = places.length * DIM;
      return {
        name,
        tokens,
        offsets,
        box: extent(tokens, offsets, MOST),
        apart: distances(rows.subarray(which * length, (which + 1) * length), DIM),
      };
    });
    const place = (/** @type {number} */ i) => `${Math.floor(i / GRID)}, ${i % GRID}`;

    const box = frame(el, { label: t.name, room: model.get("_room") });
    box.root.classList.add("dnnl-places");
    const says = statusLine();
    const scale = slider({
      label: t.scale,
      min: 0,
      max: MOST,
      step: 0.05,
      value: model.get("scale"),
      format: (v) => v.toFixed(2),
      oninput: (v) => put(model, { scale: v }),
    });
    const table = toggle({
      label: t.table,
      options: TABLES.map((name) => [name, t.tables[name]]),
      value: model.get("table"),
      onchange: (v) => put(model, { table: v }),
    });
    const patch = slider({
      label: t.patch,
      min: 0,
      max: PATCHES - 1,
      value: model.get("patch"),
      format: t.place,
      oninput: (v) => put(model, { patch: v }),
    });
    box.controls.append(table.root, scale.root, patch.root);

    const photo = gridPad({
      width: 280,
      height: 280,
      cells: () => ({ rows: GRID, columns: GRID, width: 20, height: 20 }),
      picked: () => [Math.floor(model.get("patch") / GRID), model.get("patch") % GRID],
      onpick: (row, column) => put(model, { patch: row * GRID + column }),
    });
    const plane = canvas(340, 320, "");
    box.stage.append(photo.root, plane.root);
    box.stage.classList.add("dnnl-offset");
    box.stage.after(says.root);
    box.caption.textContent = t.caption;

    /** The photograph with the patch pasted, to cut patches from. */
    const sheet = sheetOf(photograph);
    const paste = (/** @type {number} */ from) => {
      const ctx = /** @type {CanvasRenderingContext2D} */ (sheet.getContext("2d"));
      ctx.putImageData(photograph, 0, 0);
      for (const to of places) {
        const [x, y] = corner(from), [u, v] = corner(to);
        ctx.putImageData(photograph, u - x, v - y, x, y, SIDE, SIDE);
      }
    };

    const drawPhoto = (/** @type {number} */ from) => {
      photo.fit();
      photo.name(t.photo(from));
      const { ctx } = photo, side = photo.width / GRID;
      ctx.imageSmoothingEnabled = false;
      ctx.drawImage(sheet, 0, 0, photo.width, photo.height);
      places.forEach((i, k) => {
        const [x, y] = corner(i).map((v) => (v / SIDE) * side);
        outline(ctx, x, y, side, side, [["#fff", 4], [GREEN, 2]]);
        badge(ctx, k + 1, x + side, y, 8);
      });
      const [x, y] = corner(from).map((v) => (v / SIDE) * side);
      outline(ctx, x, y, side, side, [["#000", 4.5], ["#fff", 2]]);
    };

    const drawPlane = (
      /** @type {number} */ from,
      /** @type {number} */ s,
      /** @type {(typeof tables)[0]} */ shown,
    ) => {
      plane.fit();
      plane.name(t.plane(s.toFixed(2), t.tables[shown.name]));
      const { ctx } = plane, [horizontal, vertical] = shown.box, room = 14;
      const unit = Math.min(
        (plane.width - 2 * room) / (horizontal[1] - horizontal[0]),
        (plane.height - 2 * room) / (vertical[1] - vertical[0]),
      );
      /** @type {(content: number, position: number, scale: number) => [number, number]} */
      const spot = (content, position, scale) => {
        const [x, y] = point(shown.tokens, shown.offsets, content, position, scale);
        return [
          plane.width / 2 + (x - (horizontal[0] + horizontal[1]) / 2) * unit,
          plane.height / 2 + (y - (vertical[0] + vertical[1]) / 2) * unit,
        ];
      };
      const spots = Array.from(
        { length: PATCHES },
        (_, i) => spot(places.includes(i) ? from : i, i, s),
      );
      ctx.strokeStyle = color(box.root, "--dnnl-hair");
      ctx.lineWidth = 0.8;
      ctx.beginPath();
      for (let i = 0; i < PATCHES; i++) {
        for (const next of [i % GRID < GRID - 1 && i + 1, i + GRID < PATCHES && i + GRID]) {
          if (!next) continue;
          ctx.moveTo(...spots[i]);
          ctx.lineTo(...spots[next]);
        }
      }
      ctx.stroke();
      ctx.imageSmoothingEnabled = false;
      spots.forEach(([x, y], i) =>
        ctx.drawImage(sheet, ...corner(i), SIDE, SIDE, x - 6, y - 6, 12, 12)
      );
      // What the table does to the copies: a line from where the token was without it.
      const origin = spot(from, places[0], 0);
      ctx.strokeStyle = color(box.root, "--dnnl-position");
      ctx.lineWidth = 1.5;
      ctx.beginPath();
      for (const i of places) {
        ctx.moveTo(...origin);
        ctx.lineTo(...spots[i]);
      }
      ctx.stroke();
      places.forEach((i, k) =>
        badge(ctx, s ? k + 1 : `${places.length}×`, ...spots[i], s ? 8 : 13)
      );
    };

    const draw = () => {
      const s = model.get("scale"), from = model.get("patch");
      const shown = tables[TABLES.indexOf(model.get("table"))];
      scale.set(s);
      table.set(model.get("table"));
      patch.set(from);
      paste(from);
      drawPhoto(from);
      drawPlane(from, s, shown);
      const { smallest, largest, first } = shown.apart;
      const [low, high, one] = [smallest, largest, first].map((d) => (d * s).toFixed(2));
      says.say(
        s ? t.says(low, high, s.toFixed(2), place(places[0]), place(places[1]), one) : t.none,
      );
    };
    const redraw = schedule(draw);
    redraw();
    const stops = [
      listen(model, ["scale", "table", "patch"], redraw),
      onTheme(redraw),
      photo.stop,
      redraw.cancel,
      says.stop,
    ];
    return () => {
      stops.forEach((stop) => stop());
      box.root.remove();
    };
  },
});
