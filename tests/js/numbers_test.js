import assert from "node:assert/strict";
import { viridis } from "../../dnnl/explorers/js/lib/numbers.js";

Deno.test("what is not a number has the first colour", () => {
  assert.deepEqual(viridis(NaN), viridis(0));
});
