/* The page: one thread, whose id stands in the address, and what a person does with it. */

const DELAYS = [0.5, 1, 2, 4, 5];
const SILENT_FACTOR = 3;
const LEAST_SILENCE = 30;
/** What the page is doing: nothing, sending or reading, or waiting to try a request again. */
const PHASES = { idle: "", working: "working …", pausing: "not connected" };

class Chat {
  constructor(facts) {
    this.facts = facts;
    this.thread = new Thread();
    this.cards = new Map();
    this.phase = "idle";
    this.branches = [];
    this.viewed = null;
    this.isSendWanted = false;
    this.questions = new Questions(byId("questions"), (text) => this.announce(text), (resume) => this.run({ resume }));
    const pressed = (userAction) => this.canSend && this.run({ forwardedProps: { a2uiAction: { userAction } } });
    this.surfaces = new SurfacePanels(pressed, () => this.draw());
    const say = (prompt) => (this.canSend ? this.run({ prompt }) : this.announce("not sent: the chat is busy"));
    this.apps = new AppPanel(byId("app"), say, (text) => this.say(text));
    document.title = visible(facts.title);
    byId("title").textContent = visible(facts.title);
    this.listen();
    this.open();
  }

  listen() {
    const on = (id, event, act) => byId(id).addEventListener(event, act);
    on("composer", "submit", (event) => {
      event.preventDefault();
      this.send();
    });
    on("prompt", "keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    on("prompt", "input", () => {
      this.isSendWanted = false;
      this.fit();
    });
    on("stop", "click", () => this.stop());
    on("log", "click", ({ target }) => {
      const app = this.thread.find(target.closest("[data-app]")?.dataset.app);
      if (app) this.apps.open(app);
    });
    on("new", "click", () => { location.hash = crypto.randomUUID(); });
    on("state-button", "click", () => this.toggleState());
    window.addEventListener("hashchange", () => this.open());
    window.addEventListener("online", () => this.look());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.look());
    setInterval(() => this.watch(), 5000);
  }

  /** Open the thread that the address names; without one, make one. */
  open() {
    if (!location.hash.slice(1)) history.replaceState(null, "", `#${crypto.randomUUID()}`);
    const id = decodeURIComponent(location.hash.slice(1));
    if (id === this.threadId) return;
    this.threadId = id;
    this.thread = new Thread();
    this.branches = [];
    this.isSendWanted = false;
    this.questions.clear();
    this.surfaces.clear(id);
    this.apps.clear();
    this.connect();
    byId("prompt").focus();
  }

  /** Ask for the thread, and follow the run that is in progress in it. */
  connect() {
    return this.perform({ path: "connect", input: this.input([]) });
  }

  input(messages, more = {}) {
    const runId = crypto.randomUUID();
    return { threadId: this.threadId, runId, messages, tools: [], context: [], state: {}, forwardedProps: {}, ...more };
  }

  /** Begin a run of messages, with a prompt or with answers. */
  run({ messages = this.shown, prompt = "", ...more } = {}) {
    const added = prompt ? [{ id: crypto.randomUUID(), role: "user", content: prompt }] : [];
    // What this page has shown before it went back was not written by another page.
    const seen = new Set([this.thread.messages, ...this.branches.map((each) => each.messages)].flat().map(({ id }) => id));
    return this.perform({ path: "", input: this.input([...messages, ...added], more), prompt, seen });
  }

  /** Send what stands in the composer; while the page asks for the thread, as soon as it is there and no run is in progress. */
  send() {
    const prompt = byId("prompt").value.trim();
    this.isSendWanted = prompt !== "" && !this.canSend && this.request?.path === "connect";
    if (this.isSendWanted) this.announce("sent as soon as no run is in progress");
    if (!prompt || !this.canSend) return;
    byId("prompt").value = "";
    this.fit();
    this.run({ prompt });
  }

  get canSend() {
    return this.phase === "idle" && !this.questions.isWaiting;
  }

  /** Carry a request out, until its run has ended: what breaks is tried again, as the same run is never begun twice. */
  async perform(request) {
    this.abort?.abort();
    const { signal } = this.abort = new AbortController();
    this.request = request;
    if (request.path !== "connect") this.isSendWanted = false;
    this.viewed = null;
    this.say(null);
    for (let attempt = 0; !signal.aborted; attempt++) {
      this.enter("working");
      try {
        if (await this.follow(request, signal)) return this.end(request);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof RefusedError && error.status !== 503) return this.refuse(request, error);
        await this.pause(error.seconds ?? DELAYS[Math.min(attempt, DELAYS.length - 1)], messageOf(error), signal);
      }
    }
  }

  /** Follow a request to the end of its run; a stream that ends before is a broken one. */
  async follow(request, signal) {
    if (request.path === "") {
      this.thread.reset(request.input.messages);
      this.draw();
    }
    const silence = new AbortController();
    this.stopReading = () => silence.abort();
    this.receivedAt = performance.now();
    const response = await post(request.path, request.input, AbortSignal.any([signal, silence.signal]));
    let [isThere, hasEnded] = [false, false];
    for await (const events of eventsOf(response, () => { this.receivedAt = performance.now(); })) {
      if (signal.aborted) return false;
      if (!isThere && request.path === "connect") this.thread.reset([]);
      for (const event of events) {
        this.thread.reduce(event);
        hasEnded = ["RUN_FINISHED", "RUN_ERROR"].includes(event.type);
      }
      isThere = true;
      this.drawSoon();
    }
    if (!isThere && request.path === "connect") {
      this.thread.reset([]);
      return true;
    }
    if (!hasEnded) throw new TypeError("the stream ended before its run");
    return true;
  }

  end(request) {
    this.request = null;
    this.enter("idle");
    const { failure, interrupts, left } = this.thread;
    this.questions.show(interrupts, this.thread);
    this.draw();
    this.loadBranches();
    if (this.isSendWanted && this.questions.isWaiting) this.announce("not sent: answer the question first");
    if (this.isSendWanted) return this.send();
    if (failure && !this.thread.interrupts.length) {
      const again = () => (request.input.resume ? this.connect() : this.answerAgain(this.lastQuestion));
      this.say(`The run failed: ${ended(failure.message ?? failure.code ?? "no reason was given")}`, again);
    } else if (left && request.seen && !request.seen.has(left)) {
      this.say("Another page had written messages in this chat that are not shown here: this page continued from an earlier one.");
    }
  }

  /** Ask for what the thread has left; without an answer, the page shows the thread alone. */
  async loadBranches() {
    if (!this.facts.canRewind || !this.thread.messages.length) return;
    const { threadId } = this;
    try {
      const branches = await (await post("branches", { threadId })).json();
      if (threadId !== this.threadId) return;
      this.branches = branches;
      this.thread.changed = null;
      this.draw();
    } catch (error) {
      console.warn("the versions of the thread could not be loaded:", error.message);
    }
  }

  /** Show a version of the thread; what is sent continues from it. */
  view(version) {
    this.viewed = version === this.thread.messages ? null : version;
    this.thread.changed = null;
    const back = () => this.view(this.thread.messages);
    this.say(this.viewed && "This is an earlier version of the chat. A message continues from it.", back, "Show the latest");
    this.draw();
  }

  /** The messages that the page shows. */
  get shown() {
    return this.viewed ?? this.thread.messages;
  }

  /** Show why the server refused a request, and what trying again means. */
  refuse(request, error) {
    this.request = null;
    const isOfOthers = error.status === 409 || error.status === 410;
    if (request.prompt && !byId("prompt").value) {
      byId("prompt").value = request.prompt;
      this.fit();
      this.thread.reset(request.input.messages.slice(0, -1));
    }
    this.enter("idle");
    // A question that was answered elsewhere: what became of it is shown at once.
    if (isOfOthers && request.input.resume?.length) {
      const why = `This answer did nothing. ${error.message}`;
      return this.connect().then(() => { if (!this.request) this.say(why); });
    }
    this.say(error.message, async () => {
      if (!isOfOthers) return this.perform(request);
      // What others did meanwhile is shown first.
      await this.connect();
      if (request.prompt) this.send();
    });
  }

  async pause(seconds, reason, signal) {
    this.enter("pausing");
    const { promise, resolve } = Promise.withResolvers?.() ?? deferred();
    this.resume = resolve;
    this.say(`${reason} The page tries again in ${Math.ceil(seconds)} s.`, resolve);
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", resolve, { once: true });
    await promise;
    clearTimeout(timer);
    if (!signal.aborted) this.say(null);
  }

  /** A person looks at the page: it catches up with what happened meanwhile. */
  look() {
    if (this.phase === "pausing") this.resume();
    else if (this.phase === "idle") this.connect();
    else this.watch();
  }

  /** Leave a response that has been silent for longer than the app ever is: its connection is gone. */
  watch() {
    const silence = Math.max(LEAST_SILENCE, SILENT_FACTOR * this.facts.keepAlive);
    if (this.phase === "working" && performance.now() - this.receivedAt > silence * 1000) this.stopReading?.();
  }

  async stop() {
    byId("stop").disabled = true;
    try {
      await post("stop", { threadId: this.threadId, runId: this.thread.runId ?? undefined });
    } catch (error) {
      this.say(`The run could not be stopped. ${messageOf(error)}`, () => this.stop());
    }
  }

  get lastQuestion() {
    return this.shown.findLast(({ role }) => role === "user");
  }

  /** Have a question answered anew, maybe with another text: the thread goes back to it. */
  answerAgain(question, text = null) {
    const messages = this.shown;
    const before = messages.slice(0, messages.findIndex(({ id }) => id === question?.id));
    if (!question) return this.connect();
    return this.run({ messages: [...before, text === null ? question : { ...question, content: text }] });
  }

  // --- what is shown

  enter(phase) {
    this.phase = phase;
    byId("phase").textContent = PHASES[phase];
    byId("stop").hidden = phase !== "working" || !this.thread.isRunning;
    byId("send").hidden = !byId("stop").hidden;
    byId("stop").disabled = false;
    this.draw();
  }

  say(text, again = null, name = "Try again") {
    const buttons = again ? [h("button", { type: "button", onclick: () => again() }, name)] : [];
    byId("problem").replaceChildren(...(text ? [h("p", {}, text), ...buttons] : []));
  }

  announce(text) {
    byId("phase").textContent = visible(text);
  }

  drawSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const { thread } = this;
    const log = byId("log");
    const column = log.parentElement;
    const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    const changed = thread.takeChanged();
    const waiting = new Set(thread.interrupts.map(({ toolCallId }) => toolCallId).filter(Boolean));
    const shown = this.shown.filter(({ role }) => role !== "tool");
    const ids = new Set(shown.map(({ id }) => id));
    for (const id of this.cards.keys()) if (!ids.has(id)) this.cards.delete(id);
    const isIdle = this.phase === "idle";
    this.versions = isIdle && this.branches.length ? versionsOf(thread.messages, this.branches) : [];
    for (const message of shown) {
      const key = `${isIdle} ${waiting.size}`;
      const card = this.cards.get(message.id);
      if (card && changed && !changed.has(message.id) && card.key === key) continue;
      const element = drawnMessage(message, thread, waiting, this.buttonsOf(message, shown, isIdle));
      const opened = new Set([...(card?.element.querySelectorAll("details[data-call][open]") ?? [])].map((each) => each.dataset.call));
      for (const each of element.querySelectorAll("details[data-call]")) each.open = opened.has(each.dataset.call) || waiting.has(each.dataset.call);
      this.cards.set(message.id, { element, key });
    }
    const isNews = !changed || this.wasIdle !== isIdle || [...changed].some((id) => carriesSurface(thread.find(id) ?? {}));
    if (isNews) this.surfaces.show(this.shown, isIdle && !this.viewed && !this.questions.isWaiting);
    this.wasIdle = isIdle;
    const places = this.surfaces.places(shown, thread);
    const cards = shown.flatMap(({ id }) => [this.cards.get(id).element, ...(places.get(id) ?? [])]);
    setChildren(log, shown.length || !isIdle ? [...cards, ...(places.get(null) ?? [])] : [this.welcome ??= h("p.agui-dim.welcome", {}, "Write a message to begin.")]);
    byId("stop").hidden = this.phase !== "working" || !thread.isRunning;
    byId("send").hidden = !byId("stop").hidden;
    byId("send").disabled = !this.canSend;
    this.hint();
    column.classList.toggle("working", this.phase === "working" && thread.isRunning);
    if (isAtEnd) log.scrollTop = log.scrollHeight;
    this.drawState();
  }

  buttonsOf(message, shown, isIdle) {
    if (!isIdle || !this.facts.canRewind || this.thread.interrupts.length) return [];
    return [...this.ownButtonsOf(message, shown), ...this.switchOf(message)];
  }

  /** Return the buttons that lead to other versions, at the message where they differ. */
  switchOf(message) {
    const { ways, at } = this.versions.length ? forkAt(this.versions, this.shown, this.shown.indexOf(message)) : { ways: [] };
    if (ways.length < 2) return [];
    const step = (by, name, sign) =>
      h("button", { type: "button", "aria-label": name, disabled: !ways[at + by], onclick: () => this.view(ways[at + by]) }, sign);
    return [h("span.versions", {}, step(-1, "Earlier version", "‹"), ` ${at + 1} of ${ways.length} `, step(1, "Later version", "›"))];
  }

  ownButtonsOf(message, shown) {
    if (message.role === "user" && !message.subagentRunId && typeof message.content === "string") {
      return [h("button", { type: "button", onclick: (event) => this.edit(message, event.target) }, "Edit")];
    }
    if (message === shown.at(-1) && message.role === "assistant") {
      return [h("button", { type: "button", onclick: () => this.answerAgain(this.lastQuestion) }, "Answer again")];
    }
    return [];
  }

  edit(message, button) {
    const area = h("textarea", { rows: 3, "aria-label": "Edit the message" });
    area.value = message.content;
    const card = button.closest("article");
    const before = [...card.childNodes];
    const cancel = () => card.replaceChildren(...before);
    const send = () => area.value.trim() && this.answerAgain(message, area.value.trim());
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") cancel();
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    card.replaceChildren(area, h("div.buttons", {}, h("button", { type: "button", onclick: send }, "Send edited"), h("button", { type: "button", onclick: cancel }, "Cancel")));
    area.focus();
  }

  toggleState() {
    byId("state").hidden = !byId("state").hidden;
    byId("state-button").setAttribute("aria-expanded", String(!byId("state").hidden));
    this.shownState = undefined;
    this.drawState();
  }

  drawState() {
    if (byId("state").hidden) return;
    const text = JSON.stringify(this.thread.state);
    if (text === this.shownState) return;
    this.shownState = text;
    const isEmpty = text === undefined || text === "null" || text === "{}";
    byId("state").replaceChildren(h("h2", {}, "State"), isEmpty ? h("p.agui-dim", {}, "The thread has no state.") : treeOf(this.thread.state));
  }

  /** Say in the composer why nothing can be sent. */
  hint() {
    const isAsked = this.questions.isWaiting;
    byId("prompt").placeholder = this.viewed ? "Message (continues from this version)" : isAsked ? "Answer the question above first" : "Message (Enter sends, Shift+Enter begins a new line)";
  }

  fit() {
    const prompt = byId("prompt");
    prompt.rows = Math.min(8, Math.max(1, prompt.value.split("\n").length));
  }
}

function deferred() {
  const made = {};
  made.promise = new Promise((resolve) => { made.resolve = resolve; });
  return made;
}

new Chat(JSON.parse(byId("facts").textContent));
