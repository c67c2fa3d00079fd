/** @file Quiz: questions with an explanation for every choice. */

import { button } from "../lib/controls.js";
import { frame, h, language, textsIn, uniqueId } from "../lib/dom.js";
import { listen, put } from "../lib/model.js";
import { parts, plain, verdict } from "./compute.js";

/** @import { Texts, View } from "../lib/types.d.ts" */
/** @import { Question } from "./compute.js" */
/** @typedef {typeof import("./en.js").default} Text */

/**
 * A text as nodes.
 *
 * @param {string} text
 */
const prose = (text) => parts(text).map(({ part, code }) => (code ? h("code", {}, part) : part));

/**
 * The address of a heading on this page, or null.
 *
 * @param {string} title
 */
function address(title) {
  const headings = [...document.querySelectorAll("h1, h2, h3, h4")];
  const found = headings.find((one) => plain(one.textContent ?? "") === plain(title));
  const id = found?.id || found?.closest("section[id]")?.id;
  return id ? `#${encodeURIComponent(id)}` : null;
}

/**
 * The explanation of an answer.
 *
 * @param {Question} item
 * @param {number} picked
 * @param {Text} t
 */
function explanation(item, picked, t) {
  const { why, right } = item.choices[picked], href = address(item.see);
  const link = h(href ? "a" : "span", { href }, t.see + item.see);
  return [h("strong", {}, right ? t.right : t.wrong), " ", ...prose(why), " ", link];
}

/**
 * @param {Question} item
 * @param {number} number
 * @param {Text} t
 * @param {(picked: number) => void} choose
 */
function question(item, number, t, choose) {
  const id = uniqueId();
  const ask = h("p", { class: "dnnl-ask", id }, `${number}. `, prose(item.ask));
  const buttons = item.choices.map(({ text }, i) => {
    const one = button("", () => choose(i), { "aria-pressed": "false" });
    one.append(h("span", {}, prose(text)));
    return one;
  });
  const choices = h("ul", { class: "dnnl-choices" }, buttons.map((one) => h("li", {}, one)));
  const said = h("p", { "aria-live": "polite" });
  const root = h("div", { class: "dnnl-question", role: "group", "aria-labelledby": id }, [
    ask,
    choices,
    said,
  ]);

  /** @type {number | undefined | null} */
  let shown = null;
  /** @param {number | undefined} picked the number of the choice; undefined: no answer yet */
  const show = (picked) => {
    if (picked === shown) return;
    shown = picked;
    const state = verdict(item.choices, picked);
    buttons.forEach((one, i) => {
      one.className = `dnnl-button dnnl-choice ${i === picked ? state : ""}`.trim();
      one.setAttribute("aria-pressed", String(i === picked));
    });
    said.className = `dnnl-verdict ${state}`.trim();
    said.replaceChildren(...(state ? explanation(item, Number(picked), t) : []));
  };
  return { root, show };
}

/** @param {Texts<Text>} texts */
export default (texts) => ({
  /** @param {View} view */
  render({ model, el }) {
    const lang = language(model, el), t = textsIn(texts, lang);
    const box = frame(el, { label: t.name, room: model.get("_room") });
    box.root.classList.add("dnnl-quiz");
    box.caption.textContent = t.hint;

    /** @type {(ReturnType<typeof question> & { id: string })[]} */
    let asked = [];
    const answer = () => {
      const answers = model.get("answers");
      for (const { id, show } of asked) show(answers[id]);
    };
    const ask = () => {
      /** @type {Question[]} */
      const items = textsIn(model.get("_content"), lang);
      asked = items.map((item, i) => {
        const choose = (/** @type {number} */ picked) =>
          put(model, { answers: { ...model.get("answers"), [item.id]: picked } });
        return { id: item.id, ...question(item, i + 1, t, choose) };
      });
      box.stage.replaceChildren(...asked.map(({ root }) => root));
      answer();
    };
    ask();
    const stops = [listen(model, ["_content"], ask), listen(model, ["answers"], answer)];
    return () => {
      stops.forEach((stop) => stop());
      box.root.remove();
    };
  },
});
