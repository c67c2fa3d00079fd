/* Shows stock controls of ipywidgets beside the anywidgets, with the bundle that pip installed with it and
   without RequireJS. The bundle is large, so it is loaded when the reader comes near the first control. The
   anywidgets stay as they are: a link joins a stock model and an anywidget's. */
(() => {
  "use strict";
  const VIEW = 'script[type="application/vnd.jupyter.widget-view+json"]';
  const here = document.currentScript.src.replace(/[^/]*$/, "");

  /** Load the bundle, which asks for a notebook around it and for AMD, and return what it exports. */
  function load() {
    const notebook = {
      "base/js/namespace": { notebook: { container: { on() {} } } },
      "base/js/events": { on() {} },
      "notebook/js/outputarea": { OutputArea: { prototype: { register_mime_type() {} } } },
    };
    return new Promise((resolve, reject) => {
      globalThis.Jupyter = { version: "7.0.0" };
      globalThis.requirejs = globalThis.require = Object.assign(
        // (its other questions are for buttons in a notebook's menu, and stay unanswered)
        (names, run) => {
          if (names.includes("base/js/events")) run(...names.map((name) => notebook[name]));
        },
        { config() {} },
      );
      // (no define.amd, by which other scripts would know a loader)
      globalThis.define = (_names, make) =>
        resolve(make({ id: "ipywidgets", uri: `${here}ipywidgets.js` }));
      document.head.append(
        Object.assign(document.createElement("script"), {
          src: `${here}ipywidgets.js`,
          onerror: reject,
        }),
      );
    });
  }

  class Manager {
    #made = new Map();

    constructor(base, anywidgets) {
      this.base = base;
      this.anywidgets = anywidgets;
    }

    has_model(id) {
      return id in this.anywidgets.stored;
    }

    get_model(id) {
      if (!this.#made.has(id)) this.#made.set(id, this.#make(id));
      return this.#made.get(id);
    }

    async #make(id) {
      const { model_name, model_module, state, buffers = [] } = this.anywidgets.stored[id];
      if (model_module === "anywidget") return this.anywidgets.model(id);
      if (buffers.length) throw new Error(`${model_name} has binary values`);
      const Model = this.base[model_name];
      const values = await Model._deserialize_state(state, this);
      // A line to a kernel that goes nowhere; without one, views show that they are disconnected.
      const comm = { comm_id: id, send: () => "", on_msg() {}, on_close() {}, close() {} };
      const model = new Model(values, { widget_manager: this, model_id: id, comm });
      model.name = model_name;
      model.module = model_module;
      return model;
    }

    create_view(model, options = {}) {
      model.state_change = model.state_change.then(async () => {
        const view = new this.base[model.get("_view_name")]({ model, options });
        await view.render();
        return view;
      });
      return model.state_change;
    }

    callbacks() {
      return {};
    }

    resolveUrl(url) {
      return Promise.resolve(url);
    }

    inline_sanitize(text) {
      return text;
    }

    setViewOptions(options) {
      return options ?? {};
    }
  }

  /** Wait until one of some elements is nearly in sight. */
  function near(elements) {
    return new Promise((resolve) => {
      const watch = new IntersectionObserver((entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        watch.disconnect();
        resolve();
      }, { rootMargin: "600px" });
      for (const element of elements) watch.observe(element);
    });
  }

  async function main() {
    const anywidgets = await globalThis.sphinxAnywidget;
    const boxes = new Map();
    for (const tag of document.querySelectorAll(VIEW)) {
      const id = JSON.parse(tag.textContent).model_id;
      if (!(id in anywidgets.stored) || anywidgets.stored[id].model_module === "anywidget") {
        continue;
      }
      const box = Object.assign(document.createElement("div"), { className: "anywidget-stock" });
      tag.before(box);
      boxes.set(box, id);
    }
    await near([...boxes.keys()]);
    const base = await load();
    // The controls ask MathJax 2 to set their labels; the book has MathJax 3 and labels without formulas.
    await globalThis.MathJax?.startup?.promise;
    if (globalThis.MathJax) globalThis.MathJax.Hub ??= { Queue() {} };
    await base.load_ipython_extension?.(); // it brings the style sheet
    const manager = new Manager(base, anywidgets);
    await Promise.all(Object.keys(anywidgets.stored).map((id) => manager.get_model(id))); // links too
    for (const [box, id] of boxes) {
      const view = await manager.create_view(await manager.get_model(id));
      view.luminoWidget.constructor.attach(view.luminoWidget, box);
      for (const handle of box.querySelectorAll('[role="slider"]')) { // which ipywidgets leaves without a name
        handle.setAttribute("aria-label", view.model.get("description"));
      }
    }
    performance.mark("anywidget-controls-ready");
  }

  main();
})();
