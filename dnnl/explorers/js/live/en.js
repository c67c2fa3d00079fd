export default {
  /** @type {Record<string, string>} names that differ from the photograph's own */
  names: {},
  photograph: "Photograph",
  own: "your own image",
  choose: "Your image…",
  unread: "That file is not an image that the browser can read.",
};
