/* The surfaces of a thread (A2UI): the app paints them, and reads what is entered and pressed on them. */

const CARRIER = /a2ui_operations|a2ui_recovery_exhausted/;

/** Return whether a message may carry a surface. */
function carriesSurface({ role, activityType, toolCalls, content }) {
  if (role === "activity") return activityType === "a2ui-surface";
  if (role === "assistant") return Boolean(toolCalls?.some((call) => call.function.name === "render_a2ui"));
  return role === "tool" && CARRIER.test(textOf(content));
}

class SurfacePanels {
  /** `pressed` is called with the action of a button, and returns nothing if no run can begin; `placed` when surfaces came. */
  constructor(pressed, placed) {
    Object.assign(this, { pressed, placed, panels: new Map() });
    this.clear("");
  }

  /** Forget everything, for another thread, of which this tab may know what was typed before a reload. */
  clear(threadId) {
    for (const [id, panel] of this.panels) this.remove(id, panel);
    this.key = `agui-surfaces ${threadId}`;
    this.typed = parsedOr(sessionStorage.getItem(this.key) ?? "[]");
    this.messages = [];
    this.loose = [];
    this.queue = Promise.resolve();
    this.round = {};
  }

  remove(id, { leave, element }) {
    leave?.();
    element.remove();
    this.panels.delete(id);
  }

  /** Show the surfaces of messages as they are now; they can be used while no run is in progress. */
  show(messages, isLive) {
    const carried = messages.filter((each) => carriesSurface(each) || each.role === "user");
    if (!carried.some(carriesSurface) && !this.messages.some(carriesSurface)) return;
    // What a user said does not matter here, but that a turn began.
    this.messages = carried.map((each) => (each.role === "user" ? { id: each.id, role: "user", content: "" } : each));
    this.isLive = isLive;
    if (this.isStale) return;
    this.isStale = true;
    this.ask({});
  }

  /** Have the app paint, one request behind the other; what a person did is in the request. */
  ask(done) {
    const { round } = this;
    const isLook = done.surfaceId === undefined;
    this.queue = this.queue.then(async () => {
      if (round !== this.round) return;
      if (isLook) this.isStale = false;
      const { messages, typed, isLive } = this;
      try {
        const shown = await (await post("surfaces", { messages, typed, isLive, ...done })).json();
        if (round === this.round) this.take(shown);
      } catch (error) {
        if (round !== this.round) return;
        this.loose = [`The forms of the agent could not be drawn. ${messageOf(error)}`];
        this.panels.forEach((panel) => panel.tell({ html: panel.html }));
        this.placed();
      }
    });
  }

  take({ surfaces, loose, typed, kept, action }) {
    Object.assign(this, { typed, loose });
    sessionStorage.setItem(this.key, JSON.stringify(kept));
    const ids = new Set(surfaces.map(({ id }) => id));
    for (const [id, panel] of this.panels) if (!ids.has(id)) this.remove(id, panel);
    for (const { id, html, messages } of surfaces) {
      const panel = this.panels.get(id) ?? this.begin(id, html);
      Object.assign(panel, { html, messages });
      panel.tell({ html });
    }
    this.placed();
    if (action && !this.pressed(action)) this.ask({});
  }

  begin(id, html) {
    const listeners = new Set();
    const panel = { html, element: h("div.surface"), tell: (message) => listeners.forEach((each) => each(message)) };
    this.panels.set(id, panel);
    // What the script of notebooks expects of a kernel: the app reads what is entered and pressed.
    const model = {
      get: () => ({ style: "", rules: "", slow: "the server has not responded yet", classes: "agui", html: panel.html }),
      on: (name, listener) => listeners.add(listener),
      off: (name, listener) => listeners.delete(listener),
      send: ({ press_id, latest, ...done }) => { if (latest === undefined) this.ask({ ...done, surfaceId: id }); },
    };
    panel.leave = drawSurface({ model, el: panel.element });
    return panel;
  }

  /** Return the elements that stand behind a message, by its id; under null those whose message is not shown. */
  places(shown, thread) {
    const found = new Map();
    const ids = new Set(shown.map(({ id }) => id));
    const caller = (id) => thread.callerOf(thread.find(id)?.toolCallId)?.id;
    const add = (id, element) => found.set(id, [...(found.get(id) ?? []), element]);
    for (const { messages, element } of this.panels.values()) {
      const last = messages.at(-1);
      add([last, caller(last)].find((each) => ids.has(each)) ?? null, element);
    }
    for (const text of this.loose) add(null, h("p.agui-line.agui-bad", {}, text));
    return found;
  }
}
