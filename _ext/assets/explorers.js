/* Shows the explorers of a page from the state that its notebook stored: no kernel, no RequireJS, no
   html-manager. It waits for the page's text, and not for its style sheet. */
(() => {
  "use strict";
  const STATE = 'script[type="application/vnd.jupyter.widget-state+json"]';
  const VIEW = 'script[type="application/vnd.jupyter.widget-view+json"]';

  /** What an anywidget's module expects of its model, with nobody at the other end. */
  class Model {
    #state;
    #listeners = [];

    constructor(state) { this.#state = state; }

    get(name) { return this.#state[name]; }

    set(name, value) {
      const next = typeof name === "object" ? name : { [name]: value };
      const changed = Object.keys(next).filter((key) => this.#state[key] !== next[key]);
      Object.assign(this.#state, next);
      for (const key of changed) this.#emit(`change:${key}`, this, next[key]);
      if (changed.length) this.#emit("change", this);
    }

    save_changes() {}

    send() {}

    on(names, fn, context) {
      if (typeof names === "object") { // {name: fn, …}, as stock controls ask
        for (const [name, act] of Object.entries(names)) this.on(name, act, fn);
        return;
      }
      for (const name of names.split(/\s+/)) this.#listeners.push({ name, fn, context });
    }

    off(name, fn) {
      this.#listeners = this.#listeners.filter(
        (one) => (name != null && one.name !== name) || (fn != null && one.fn !== fn));
    }

    #emit(name, ...values) {
      for (const one of [...this.#listeners]) if (one.name === name) one.fn.apply(one.context, values);
    }
  }

  function binary(base64) {
    const text = atob(base64), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new DataView(bytes.buffer);
  }

  /** Put the binary values, stored apart in base64, back into a widget's state. */
  function whole({ state, buffers = [] }) {
    for (const { path, data } of buffers) {
      const holder = path.slice(0, -1).reduce((part, key) => part[key], state);
      holder[path.at(-1)] = binary(data);
    }
    return state;
  }

  // A module that imports nothing and exports one thing, at its end, as all explorers of the book do.
  const PLAIN = /^(?!.*^(?:import\b|export (?!default))).*^export default (?=\{[^{}]*\};?\s*$)/ms;

  /** Return what a plain module exports, at once: browsers hold an import back until the style sheet is there. */
  function evaluate(text) {
    return new Function(`"use strict";${text.replace(PLAIN, (before) => before.replace(/export default $/, "return "))}`)();
  }

  function imported(text) {
    return import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  }

  /** Return what makes a thing once per key. */
  function once(make) {
    const made = new Map();
    return (key) => {
      if (!made.has(key)) made.set(key, make(key));
      return made.get(key);
    };
  }

  async function main() {
    const stored = {};
    for (const tag of document.querySelectorAll(STATE)) {
      const { state, shared = {} } = JSON.parse(tag.textContent);
      for (const one of Object.values(state).filter((each) => each.model_module === "anywidget")) {
        for (const [key, beginning] of Object.entries(shared)) one.state[key] = beginning + one.state[key];
      }
      Object.assign(stored, state);
    }
    const style = once((css) => document.head.append(Object.assign(document.createElement("style"), { textContent: css })));
    const module = once(async (text) => {
      const widget = PLAIN.test(text) ? evaluate(text) : (await imported(text)).default;
      return typeof widget === "function" ? widget() : widget;
    });
    const model = once((id) => new Model(whole(stored[id])));
    const ready = once(async (id) => {
      const widget = await module(model(id).get("_esm"));
      await widget.initialize?.({ model: model(id) });
      return widget;
    });
    await Promise.all([...document.querySelectorAll(VIEW)].map(async (tag) => {
      const id = JSON.parse(tag.textContent).model_id;
      if (stored[id]?.model_module !== "anywidget") return;
      const el = document.createElement("div");
      tag.before(el);
      try {
        if (model(id).get("_css")) style(model(id).get("_css"));
        await (await ready(id)).render?.({ model: model(id), el });
      } catch (error) {
        console.error(error);
        el.setAttribute("role", "alert");
        const chinese = document.documentElement.lang.startsWith("zh");
        el.textContent = chinese ? "此交互图未能加载。" : "This figure failed to load.";
      }
    }));
    await new Promise((resolve) => { requestAnimationFrame(resolve); }); // explorers draw in the next frame
    performance.mark("dnnl-explorers-ready");
    // What can wait: the theme's scripts, and formulas.
    for (const tag of document.querySelectorAll("script[data-later]")) {
      tag.replaceWith(Object.assign(document.createElement("script"), { src: tag.dataset.later, async: false }));
    }
    return { stored, model };
  }

  const parsed = new Promise((resolve) => {
    if (document.readyState !== "loading") resolve();
    else document.addEventListener("readystatechange", resolve, { once: true });
  });
  window.dnnlExplorers = parsed.then(main); // for controls.js
})();
