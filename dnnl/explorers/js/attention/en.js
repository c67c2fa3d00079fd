import live from "../live/en.js";

export default {
  live,
  name: "What the class token attends to",
  maps: "Layer and head",
  layer: (l) => `layer ${l}`,
  head: (i) => (i == null ? "mean" : `head ${i}`),
  mapName: (l, i) => (i == null ? `layer ${l}, mean` : `layer ${l}, head ${i}`),
  photo: "What the model sees",
  photoLabel: (s) =>
    `Photograph of ${s.n} patches, ${s.hidden} of them hidden; patch ${s.patch} is picked. Arrow keys move the pick.`,
  map: (s) => `Attention: ${s.map}`,
  mapLabel: (s) =>
    `Map of the class token's attention to ${s.n} patches, ${s.map}: from 0 to ${s.most} %, most at row ${s.row}, column ${s.column}. Arrow keys move the pick.`,
  names: "Which photograph?",
  namesLabel: "Probability of each photograph",
  hide: "Hide before naming",
  kinds: { nothing: "nothing", most: "most attended", least: "least attended" },
  count: "How many",
  pick: (s) =>
    `Patch ${s.patch} (row ${s.pickRow}, column ${s.pickColumn}) gets ${s.weight} % of the class token's attention; a plain mean would give it ${s.plain} %. `,
  self: (s) => `All patches together get ${s.patches} %, the class token itself ${s.own} %.`,
  says: (s) => `With ${s.hidden} of ${s.n} patches hidden it is named: ${s.guess}, ${s.percent} %.`,
  whole: (s) => `The whole photograph is named: ${s.guess}, ${s.percent} %.`,
  caption:
    "Compare the heads: they look at different things. But is what is looked at what counts? Choose “layer 0, mean” and hide the 147 patches with the most attention, then the 147 with the least. Point at a patch, tap it, or use the arrow keys to read its weight.",
};
