/** @file Quiz: questions with an explanation for every choice. */

import { frame, h, language, textsIn, uniqueId } from "../lib/dom.js";
import { listen, put } from "../lib/model.js";
import { parts, plain } from "./compute.js";

/** @import { Texts, View } from "../lib/types.d.ts" */
/** @typedef {Texts<typeof import("./en.js").default>} OwnTexts */

/** A text as nodes. */
const prose = (text) => parts(text).map(({ part, code }) => (code ? h("code", {}, part) : part));

/** The address of a heading on this page, or null. */
function address(title) {
  const found = [...document.querySelectorAll("h1, h2, h3, h4")].find((e) =>
    plain(e.textContent) === plain(title)
  );
  const id = found && (found.id || found.closest("section[id]")?.id);
  return id ? `#${encodeURIComponent(id)}` : null;
}

function question(item, number, t, choose) {
  const id = uniqueId();
  const ask = h("p", { class: "dnnl-ask", id }, `${number}. `, prose(item.ask));
  const buttons = item.choices.map((option, i) =>
    h("button", {
      type: "button",
      class: "dnnl-button dnnl-choice",
      "aria-pressed": "false",
      onclick: () => choose(i),
    }, h("span", {}, prose(option.text)))
  );
  const verdict = h("p", { class: "dnnl-verdict", "aria-live": "polite" });
  const root = h(
    "div",
    { class: "dnnl-question", role: "group", "aria-labelledby": id },
    ask,
    h("ul", { class: "dnnl-choices" }, buttons.map((b) => h("li", {}, b))),
    verdict,
  );

  let shown;
  /** Show the verdict on choice number `picked`; undefined: no answer yet. */
  const show = (picked) => {
    if (picked === shown) return;
    shown = picked;
    buttons.forEach((b, i) => {
      const state = i !== picked ? "" : item.choices[i].right ? "right" : "wrong";
      b.className = `dnnl-button dnnl-choice ${state}`.trim();
      b.setAttribute("aria-pressed", i === picked);
    });
    const option = item.choices[picked];
    verdict.className = `dnnl-verdict ${option ? (option.right ? "right" : "wrong") : ""}`.trim();
    if (!option) return verdict.replaceChildren();
    const href = address(item.see);
    verdict.replaceChildren(
      h("strong", {}, option.right ? t.right : t.wrong),
      " ",
      ...prose(option.why),
      " ",
      href ? h("a", { href }, t.see + item.see) : h("span", {}, t.see + item.see),
    );
  };
  return { root, show };
}

/**
 * @param {OwnTexts} texts
 * @param {View} view
 */
function render(texts, { model, el }) {
  const lang = language(model, el), t = textsIn(texts, lang);
  const box = frame(el, { label: t.name, room: model.get("_room") });
  box.root.classList.add("dnnl-quiz");
  box.caption.textContent = t.hint;
  let asked = [];

  const answer = () => {
    const answers = model.get("answers");
    for (const { id, show } of asked) show(answers[id]);
  };
  const build = () => {
    const content = model.get("_content");
    asked = (content[lang] ?? content.en).map((item, i) => {
      const choose = (picked) =>
        put(model, { answers: { ...model.get("answers"), [item.id]: picked } });
      return { id: item.id, ...question(item, i + 1, t, choose) };
    });
    box.stage.replaceChildren(...asked.map((q) => q.root));
    answer();
  };
  build();
  const stops = [listen(model, ["_content"], build), listen(model, ["answers"], answer)];
  return () => {
    stops.forEach((stop) => stop());
    box.root.remove();
  };
}

/** @param {OwnTexts} texts */
export default (texts) => ({ render: (/** @type {View} */ view) => render(texts, view) });
