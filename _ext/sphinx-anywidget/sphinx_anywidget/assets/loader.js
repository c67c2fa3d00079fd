/**
 * @file Shows the anywidgets of a page from the state that its notebook stored: no kernel, no
 *   RequireJS, no html-manager.
 *
 *   Scripts of the page put what is large into two tables: `anywidgetModules`, the widgets' modules
 *   by name, and `anywidgetValues`, strings and binary values by their hash. They are classic
 *   scripts, because browsers refuse others from disk.
 */
(() => {
  "use strict";
  const STATE = 'script[type="application/vnd.jupyter.widget-state+json"]';
  const VIEW = 'script[type="application/vnd.jupyter.widget-view+json"]';
  const here = /** @type {HTMLScriptElement} */ (document.currentScript).src.replace(/[^/]*$/, "");
  const global = /** @type {any} */ (globalThis);
  const modules = global.anywidgetModules ??= {};
  const values = global.anywidgetValues ??= {};

  /** What an anywidget's module expects of its model, with no kernel at the other end. */
  class Model {
    #state;
    /** @type {{ name: string, fn: (...args: any[]) => void, context: any }[]} */
    #listeners = [];

    /** @param {Record<string, any>} state */
    constructor(state) {
      this.#state = state;
    }

    /** @param {string} name */
    get(name) {
      return this.#state[name];
    }

    /** @param {string | Record<string, any>} name @param {any} [value] */
    set(name, value) {
      const next = typeof name === "object" ? name : { [name]: value };
      const changed = Object.keys(next).filter((key) => this.#state[key] !== next[key]);
      Object.assign(this.#state, next);
      for (const key of changed) this.#emit(`change:${key}`, this, next[key]);
      if (changed.length) this.#emit("change", this);
    }

    save_changes() {}

    send() {}

    /** @param {any} names a string, or { name: fn, … } as stock controls ask @param {any} fn @param {any} [context] */
    on(names, fn, context) {
      if (typeof names === "object") {
        for (const [name, act] of Object.entries(names)) this.on(name, act, fn);
        return;
      }
      for (const name of names.split(/\s+/)) this.#listeners.push({ name, fn, context });
    }

    /** @param {string} [name] @param {any} [fn] */
    off(name, fn) {
      this.#listeners = this.#listeners.filter((one) =>
        (name != null && one.name !== name) || (fn != null && one.fn !== fn)
      );
    }

    /** @param {string} name @param {...any} args */
    #emit(name, ...args) {
      for (const one of [...this.#listeners]) {
        if (one.name === name) one.fn.apply(one.context, args);
      }
    }
  }

  /**
   * Return what makes a thing once per key.
   *
   * @template Made
   * @param {(key: string) => Made} make
   * @returns {(key: string) => Made}
   */
  function once(make) {
    const made = new Map();
    return (key) => {
      if (!made.has(key)) made.set(key, make(key));
      return made.get(key);
    };
  }

  /** Resolves when a script of the folder of this one has run. */
  const script = once((file) =>
    new Promise((resolve, reject) => {
      const src = here + file;
      const tags = [...document.scripts];
      let tag = tags.find((one) => one.src === src);
      if (tag) { // it was in the page from the start, and may have run or failed already
        if (document.readyState === "complete") resolve(undefined);
        else addEventListener("load", resolve);
      }
      tag ??= Object.assign(document.createElement("script"), { src });
      tag.addEventListener("load", resolve);
      tag.addEventListener("error", () => reject(new Error(`${file} could not be loaded`)));
      if (!tag.isConnected) document.head.append(tag);
    })
  );

  /**
   * What a script has put into a table.
   *
   * @param {Record<string, any>} table
   * @param {string} key
   * @param {string} file
   */
  async function entry(table, key, file) {
    if (!(key in table)) await script(file);
    if (!(key in table)) throw new Error(`${file} does not define ${key}`);
    return table[key];
  }

  /** @param {string} base64 */
  function binary(base64) {
    const text = atob(base64), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new DataView(bytes.buffer);
  }

  /**
   * Put a value into a state, however deep.
   *
   * @param {any} state
   * @param {(string | number)[]} path
   * @param {any} value
   */
  function assign(state, path, value) {
    const holder = path.slice(0, -1).reduce((part, key) => part[key], state);
    holder[/** @type {string} */ (path.at(-1))] = value;
  }

  /**
   * Resolves when an element is nearly in sight.
   *
   * @param {Element} element
   */
  const near = (element) =>
    new Promise((resolve) => {
      const watch = new IntersectionObserver((entries) => {
        if (!entries.some((one) => one.isIntersecting)) return;
        watch.disconnect();
        resolve(undefined);
      }, { rootMargin: "400px" });
      watch.observe(element);
    });

  async function main() {
    /** @type {Record<string, any>} */
    const stored = {};
    let stock = null; // the script of stock controls
    for (const tag of document.querySelectorAll(STATE)) {
      const { state, controls } = JSON.parse(tag.textContent ?? "");
      Object.assign(stored, state);
      stock ??= controls;
    }
    const model = once((id) => new Model(stored[id].state));
    const whole = once(async (id) => {
      const { state, files = [], buffers = [] } = stored[id];
      for (const { path, data } of buffers) assign(state, path, binary(data));
      await Promise.all(files.map(async (/** @type {any} */ { path, key, file, binary: bytes }) => {
        const value = await entry(values, key, file);
        assign(state, path, bytes ? binary(value) : value);
      }));
    });
    const imported = once((text) =>
      import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })))
    );
    const widget = once(async (id) => {
      const { module, state } = stored[id];
      await whole(id);
      let found = module
        ? await entry(modules, module.name, module.file)
        : (await imported(state._esm)).default;
      if (typeof found === "function") found = await found();
      await found.initialize?.({ model: model(id) });
      return found;
    });

    /** @param {Element} tag the script that stands where a widget is shown */
    async function show(tag) {
      const el = document.createElement("div");
      tag.before(el);
      try {
        const id = JSON.parse(tag.textContent ?? "").model_id;
        await (await widget(id)).render?.({ model: model(id), el });
      } catch (error) {
        console.error(error);
        el.setAttribute("role", "alert");
        const chinese = document.documentElement.lang.startsWith("zh");
        el.textContent = chinese ? "此交互图未能加载。" : "This figure failed to load.";
      }
    }
    const shown = new Map(); // tag → the promise that it is shown
    const showOnce = (/** @type {Element} */ tag) => {
      if (!shown.has(tag)) shown.set(tag, show(tag));
      return shown.get(tag);
    };
    const tags = [...document.querySelectorAll(VIEW)].filter((tag) => {
      const id = JSON.parse(tag.textContent ?? "").model_id;
      return stored[id]?.model_module === "anywidget";
    });
    // A widget with large values is fetched and shown when the reader comes near.
    const isLarge = (/** @type {Element} */ tag) =>
      stored[JSON.parse(tag.textContent ?? "").model_id].large;
    for (const tag of tags.filter(isLarge)) {
      near(tag.parentElement ?? tag).then(() => showOnce(tag));
    }
    await Promise.all(tags.filter((tag) => !isLarge(tag)).map(showOnce));
    await new Promise(requestAnimationFrame); // widgets may draw in the next frame
    performance.mark("anywidgets-ready");
    if (stock) script(stock); // it waits for what this function returns
    return { stored, model, whole, showAll: () => Promise.all(tags.map(showOnce)) };
  }

  const parsed = new Promise((resolve) => {
    if (document.readyState !== "loading") resolve(undefined);
    else document.addEventListener("readystatechange", resolve, { once: true });
  });
  global.sphinxAnywidget = parsed.then(main); // for controls.js, and for whoever must see all
})();
