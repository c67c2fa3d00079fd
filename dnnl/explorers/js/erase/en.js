import live from "../live/en.js";

export default {
  live,
  name: "Erase and reconstruct",
  seen: "What the model sees",
  seenLabel: (s) =>
    `Photograph of ${s.n} patches, ${s.count} of them erased. Drag to erase. By keyboard: arrow keys move, Space erases or restores.`,
  filled: "What it fills in",
  filledLabel: (s) =>
    `The photograph with its ${s.count} erased patches filled in by the model, positions ${s.positions}.`,
  original: "The photograph",
  positions: "Positions",
  kinds: { true: "as learned", off: "off (zeros)", shuffled: "shuffled" },
  brush: "Eraser",
  wide: (v) => `${v} × ${v}`,
  half: "Erase half",
  restore: "Restore",
  errors: "Squared error on the erased patches, by positions",
  errorTitle: (s) => `Squared error on the ${s.count} erased patches, by positions`,
  says: (s) =>
    `${s.count} of ${s.n} patches erased; squared error with positions ${s.positions}: ${s.error}. The class token says: ${s.guess}, ${s.percent} %.`,
  whole: (s) => `Nothing is erased. The class token says: ${s.guess}, ${s.percent} %.`,
  at: (row, column, hidden) => `Row ${row}, column ${column}: ${hidden ? "erased" : "visible"}.`,
  caption:
    "Drag over the first picture to erase patches; start on a hole to restore. The model, here in the page, fills the holes. Without positions it cannot tell one hole from another and puts the same patch into all of them; shuffled, it puts the right colours in wrong places. Try an image of your own (drop it here): trained on ten photographs, it can only give it one of their ten names.",
};
