/* The questions of a run that waits: forms that the app draws of their schemas, and what was answered in them. */

class Questions {
  /** `answered` is called with all answers once each question has one. */
  constructor(element, announce, answered) {
    Object.assign(this, { element, announce, answered, panels: new Map() });
  }

  get isWaiting() {
    return this.panels.size > 0;
  }

  /** Show these questions; those that are there already keep what was typed. */
  async show(interrupts, thread) {
    const ids = new Set(interrupts.map(({ id }) => id));
    for (const [id, panel] of this.panels) if (!ids.has(id)) this.remove(id, panel);
    const fresh = interrupts.filter(({ id }) => !this.panels.has(id));
    for (const interrupt of fresh) this.panels.set(interrupt.id, { interrupt, entry: null, element: h("div.question") });
    await Promise.all(fresh.map((interrupt) => this.draw(this.panels.get(interrupt.id), thread)));
  }

  remove(id, { leave, element }) {
    leave?.();
    element.remove();
    this.panels.delete(id);
  }

  async draw(panel, thread) {
    const { interrupt, element } = panel;
    this.element.append(element);
    const asked = { interrupt, arguments: thread.callOf(interrupt.toolCallId)?.function.arguments };
    let shown;
    try {
      shown = await (await post("form", asked)).json();
    } catch (error) {
      const again = () => { element.replaceChildren(); this.draw(panel, thread); };
      element.replaceChildren(h("p", { role: "alert" }, `The form of a question could not be loaded. ${messageOf(error)} `, h("button", { type: "button", onclick: again }, "Try again")));
      return;
    }
    if (!this.panels.has(interrupt.id)) return;
    panel.leave = drawQuestion({ model: this.model(panel, asked, shown), el: element });
    this.announce(`The agent asks: ${interrupt.message ?? interrupt.reason}`);
  }

  /** What the script of notebooks expects of a kernel: the app reads what is pressed. */
  model(panel, asked, shown) {
    const listeners = new Set();
    const tell = (message) => listeners.forEach((each) => each(message));
    return {
      get: () => ({ ...shown, style: "", slow: "the server has not responded yet", asked_id: asked.interrupt.id }),
      on: (name, listener) => listeners.add(listener),
      off: (name, listener) => listeners.delete(listener),
      send: async ({ pressed, values, ...more }) => {
        if (pressed === undefined) return;
        const press = panel.press = (panel.press ?? 0) + 1;
        let read;
        try {
          read = await (await post("form", { ...asked, pressed, values })).json();
        } catch (error) {
          read = { problem: `${messageOf(error)} Press again.`, problems: {} };
        }
        // The last press counts.
        if (press !== panel.press) return;
        if (!read.entry) return tell({ ...more, ...read });
        panel.leave?.();
        panel.entry = read.entry;
        panel.element.replaceChildren(h("p.agui-line.agui-dim", {}, `${pressed} · ${shortened(asked.interrupt.message ?? asked.interrupt.reason, 120)}`));
        this.finish();
      },
    };
  }

  finish() {
    const entries = [...this.panels.values()].map(({ entry }) => entry);
    if (entries.every(Boolean)) this.answered(entries);
  }

  clear() {
    for (const [id, panel] of [...this.panels]) this.remove(id, panel);
  }
}

function messageOf(error) {
  return error instanceof RefusedError ? error.message : "The server cannot be reached.";
}
