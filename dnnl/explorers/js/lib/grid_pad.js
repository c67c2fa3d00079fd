/** @file A grid of cells to pick from, by pointer, finger and arrow keys. */

import { onKeys } from "./dom.js";
import { canvas, outline } from "./draw.js";
import { clamp } from "./numbers.js";

/** @import { Stop } from "./types.d.ts" */

/**
 * @typedef {object} Cells A grid that starts in the canvas's upper left corner.
 * @property {number} rows
 * @property {number} columns
 * @property {number} width the width of a cell
 * @property {number} height
 */

/** @typedef {[row: number, column: number]} Cell */

/** @typedef {ReturnType<typeof gridPad>} GridPad */

/**
 * A canvas of rows × columns cells. Its owner draws it; the pad says which cell was picked.
 *
 * @param {object} options
 * @param {number} options.width of the canvas, in its own units
 * @param {number} options.height
 * @param {string} [options.label]
 * @param {() => Cells} options.cells the grid as it is now
 * @param {() => Cell | null} [options.picked] from where the arrow keys move; without it, no keys
 * @param {() => Cell} [options.home] where they lead if no cell is picked
 * @param {(row: number, column: number, point: Cell) => void} options.onpick is called with a cell
 *   of the grid, and with the point that was picked: the middle of a cell has its row and column
 * @param {boolean} [options.hover] whether a mouse picks without being pressed
 */
export function gridPad({ width, height, label = "", cells, picked, home, onpick, hover = false }) {
  const view = canvas(width, height, label), { root } = view;

  /**
   * The cell under a pointer, or null where there is none.
   *
   * @param {MouseEvent} event
   * @returns {Cell | null}
   */
  const cellAt = (event) => {
    const [x, y] = view.at(event), grid = cells();
    const row = Math.floor(y / grid.height), column = Math.floor(x / grid.width);
    const inside = row >= 0 && column >= 0 && row < grid.rows && column < grid.columns;
    return inside ? [row, column] : null;
  };

  const point = (/** @type {PointerEvent} */ event) => {
    const follows = hover ? event.pointerType === "mouse" : event.buttons & 1;
    if (event.type === "pointermove" && !follows) return;
    const cell = cellAt(event), [x, y] = view.at(event), grid = cells();
    if (cell) onpick(...cell, [y / grid.height - 0.5, x / grid.width - 0.5]);
  };
  root.classList.add("dnnl-pad");
  root.addEventListener("pointerdown", point);
  root.addEventListener("pointermove", point);

  let stopKeys = () => {};
  if (picked) {
    const move = (/** @type {number} */ down, /** @type {number} */ right) => () => {
      const { rows, columns } = cells(), from = picked();
      if (!from) {
        const cell = home?.() ?? [0, 0];
        return onpick(...cell, cell);
      }
      const row = clamp(from[0] + down, 0, rows - 1);
      const column = clamp(from[1] + right, 0, columns - 1);
      onpick(row, column, [row, column]);
    };
    root.tabIndex = 0;
    root.setAttribute("role", "application"); // so that a screen reader lets the arrow keys through
    stopKeys = onKeys(root, {
      ArrowUp: move(-1, 0),
      ArrowDown: move(1, 0),
      ArrowLeft: move(0, -1),
      ArrowRight: move(0, 1),
      Home: move(0, -Infinity),
      End: move(0, Infinity),
    });
  }

  /**
   * Outline a cell.
   *
   * @param {Cell} cell
   * @param {[string, number][]} [lines] colours and widths, from below
   */
  const mark = ([row, column], lines) => {
    const { width: w, height: t } = cells();
    outline(view.ctx, column * w + 1, row * t + 1, w - 2, t - 2, lines);
  };

  /** @type {Stop} */
  const stop = () => {
    root.removeEventListener("pointerdown", point);
    root.removeEventListener("pointermove", point);
    stopKeys();
  };
  return { ...view, cellAt, mark, stop };
}
