/* Quiz: questions with an explanation for every choice. */

const STYLE = `
.dnnl-question + .dnnl-question {
  border-top: 1px solid var(--dnnl-hair);
  margin-top: 0.9rem;
  padding-top: 0.9rem;
}

.dnnl-explorer .dnnl-ask {
  font-weight: 600;
  margin-bottom: 0.5rem;
}

.dnnl-explorer .dnnl-choices {
  display: grid;
  gap: 0.35rem;
  list-style: none;
  margin: 0;
  padding: 0;
}

.dnnl-explorer .dnnl-choices li {
  margin: 0;
}

.dnnl-explorer .dnnl-choice {
  align-content: center;
  display: grid;
  gap: 0.6rem;
  grid-template-columns: 1.2em 1fr;
  text-align: start;
  width: 100%;
}

.dnnl-choice::before {
  content: "○" / "";
  color: var(--dnnl-muted);
}

.dnnl-choice.right::before {
  color: var(--dnnl-position-ink);
  content: "✓" / "";
  font-weight: 700;
}

.dnnl-choice.wrong::before {
  color: var(--dnnl-class-ink);
  content: "✗" / "";
  font-weight: 700;
}

.dnnl-explorer .dnnl-choice.right {
  border-color: var(--dnnl-position-ink);
  box-shadow: inset 3px 0 var(--dnnl-position-ink);
}

.dnnl-explorer .dnnl-choice.wrong {
  border-color: var(--dnnl-class-ink);
  box-shadow: inset 3px 0 var(--dnnl-class-ink);
}

.dnnl-explorer .dnnl-verdict:not(:empty) {
  margin-top: 0.5rem;
}

.dnnl-verdict.right strong {
  color: var(--dnnl-position-ink);
}

.dnnl-verdict.wrong strong {
  color: var(--dnnl-class-ink);
}

.dnnl-explorer .dnnl-verdict a {
  color: var(--dnnl-patch-ink);
  display: inline-block;
  padding: 0.5rem 0;
  text-decoration: underline;
}

.dnnl-question code {
  background: none;
  border: 0;
  color: inherit;
  font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, "Liberation Mono", monospace;
  font-size: 0.92em;
  overflow-wrap: anywhere;
  padding: 0;
}

/* On paper the questions themselves stand, in place of a picture of them. */
@media print {
  .dnnl-slot > :has(.dnnl-quiz) {
    display: block !important;
  }

  .dnnl-slot:has(.dnnl-quiz) > .dnnl-still {
    display: none !important;
  }
}
`;

const TEXT = {
  en: {
    name: "Quiz",
    right: "Right.",
    wrong: "Not so.",
    see: "The experiment: ",
    hint: "Choose an answer. Every choice has its explanation, and you may choose again.",
  },
  zh: {
    name: "自测",
    right: "对。",
    wrong: "不对。",
    see: "实验见：",
    hint: "选一个答案。每个选项都有解释，可以改选。",
  },
};

/** Text with `code` between backticks, as nodes. */
const prose = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

/** A heading's text as a reader compares it: no permalink sign, one kind of quotes and spaces. */
const plain = (text) =>
  text.replace(/[#¶]\s*$/, "").replace(/[“”„]/g, '"').replace(/[‘’]/g, "'").replace(/\s+/g, " ").trim();

/** The address of a heading on this page, or null. */
function address(title) {
  const found = [...document.querySelectorAll("h1, h2, h3, h4")].find((e) => plain(e.textContent) === plain(title));
  const id = found && (found.id || found.closest("section[id]")?.id);
  return id ? `#${encodeURIComponent(id)}` : null;
}

function question(item, number, t, choose) {
  const id = unique();
  const ask = h("p", { class: "dnnl-ask", id }, `${number}. `, prose(item.ask));
  const buttons = item.choices.map((option, i) =>
    h("button", { type: "button", class: "dnnl-button dnnl-choice", "aria-pressed": "false", onclick: () => choose(i) },
      h("span", {}, prose(option.text))));
  const verdict = h("p", { class: "dnnl-verdict", "aria-live": "polite" });
  const root = h("div", { class: "dnnl-question", role: "group", "aria-labelledby": id },
    ask, h("ul", { class: "dnnl-choices" }, buttons.map((b) => h("li", {}, b))), verdict);

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
      h("strong", {}, option.right ? t.right : t.wrong), " ", ...prose(option.why), " ",
      href ? h("a", { href }, t.see + item.see) : h("span", {}, t.see + item.see));
  };
  return { root, show };
}

function render({ model, el }) {
  const lang = language(model, el), t = texts(TEXT, lang);
  const box = frame(el, { label: t.name, room: model.get("_room") });
  box.root.classList.add("dnnl-quiz");
  box.root.append(h("style", {}, STYLE));
  box.caption.textContent = t.hint;
  let asked = [];

  const answer = () => {
    const answers = model.get("answers");
    for (const { id, show } of asked) show(answers[id]);
  };
  const build = () => {
    const content = model.get("_content");
    asked = (content[lang] ?? content.en).map((item, i) => {
      const choose = (picked) => put(model, { answers: { ...model.get("answers"), [item.id]: picked } });
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

export default { render };
