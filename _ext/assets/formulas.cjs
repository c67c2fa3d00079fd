/* Sets formulas with MathJax: one per line from stdin, as JSON, to one line of JSON on stdout.

   deno run --allow-read=FOLDER formulas.cjs FOLDER          (FOLDER: MathJax's `es5`)

   In:  {"tex": "x_i", "display": false}
   Out: {"html": "<mjx-container>…", "glyphs": {"TEX-I-1D465": "<path …>"}}, or {"error": "…"} */
"use strict";

const folder = Deno.args[0];

globalThis.MathJax = {
  loader: {
    paths: { mathjax: folder },
    load: ["adaptors/liteDOM", "input/tex", "output/svg", "a11y/assistive-mml"],
    require,
  },
  tex: {
    packages: { "[-]": ["noerrors", "noundefined"] }, // what TeX does not know is an error
    formatError(_, error) { throw error; },
  },
  svg: { fontCache: "global" }, // every glyph is drawn once
  startup: { typeset: false },
};

// Attributes that only MathJax's menu and its XML need.
const UNUSED = /^(class|jax|role|focusable|unselectable|xmlns.*|data-(c|mml-node|mjx-.*|variant))$/;

/** Remove what a page does not need, which is half of the bytes. */
function slim(node, adaptor) {
  for (const child of adaptor.childNodes(node)) {
    if (adaptor.kind(child).startsWith("#")) continue; // text
    slim(child, adaptor);
    for (const { name, value } of adaptor.allAttributes(child)) {
      if (name === "xlink:href") adaptor.setAttribute(child, "href", value.replace("#MJX-", "#"));
      if (name === "xlink:href" || UNUSED.test(name)) adaptor.removeAttribute(child, name);
    }
    if (adaptor.kind(child) === "g" && !adaptor.allAttributes(child).length) {
      for (const grandchild of [...adaptor.childNodes(child)]) adaptor.insert(grandchild, child);
      adaptor.remove(child);
    }
  }
}

async function set({ tex, display }) {
  const { adaptor, output } = MathJax.startup;
  output.clearFontCache();
  const formula = adaptor.node("div", {}, [await MathJax.tex2svgPromise(tex, { display })]);
  slim(formula, adaptor);
  const container = adaptor.firstChild(formula);
  adaptor.removeAttribute(container, "style"); // it is in formulas.css
  if (!display) { // the box stands on the line, so that it may scroll (formulas.css)
    const svg = adaptor.firstChild(container);
    adaptor.setAttribute(container, "style", adaptor.getAttribute(svg, "style"));
    adaptor.removeAttribute(svg, "style");
  }
  const glyphs = {};
  for (const path of adaptor.childNodes(output.fontCache.getCache())) {
    const id = adaptor.getAttribute(path, "id").replace("MJX-", "");
    adaptor.setAttribute(path, "id", id);
    glyphs[id] = adaptor.outerHTML(path);
  }
  return { html: adaptor.innerHTML(formula), glyphs };
}

async function main() {
  require(`${folder}/startup.js`);
  await MathJax.startup.promise;
  for await (const line of require("node:readline").createInterface({ input: process.stdin })) {
    const answer = await set(JSON.parse(line)).catch((error) => ({ error: error.message }));
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
}

main();
