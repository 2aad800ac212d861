/* The page: one moment is chosen, and everything shows it. */

const ROW_HEIGHT = 24;
const FILTERS = {
  all: () => true,
  "without deltas": (row) => typeof row.d?.delta !== "string",
  text: (row) => row.family === "text" || row.family === "reasoning",
  state: (row) => (row.o ?? []).some(({ path }) => path === "/state" || path.startsWith("/state/")),
  tools: (row) => row.family === "tool",
  subagents: (row) => row.family === "subagent",
  "warnings and errors": (row) => row.isBad || Boolean(row.w),
};

class Page {
  constructor(data) {
    this.recording = new Recording();
    data.rows.forEach((row) => this.recording.add(row));
    this.search = new Search(this.recording);
    this.found = [];
    this.at = 0;
    this.marked = null;
    this.filter = FILTERS.all;
    this.unfolded = new Set();
    this.prices = data.prices;
    this.tab = "messages";
    document.title = `${visible(data.title)}: AG-UI inspector`;
    byId("title").textContent = visible(data.title);
    byId("legend").append(...Object.entries(FAMILIES).map(([name, words]) => h(`span.f-${name}`, {}, h("span.name", {}, words))));
    byId("notes").append(...data.notes.map((each) => h("p", {}, each)));
    const choose = (row) => this.choose(row);
    this.timeline = new Timeline(this.recording, byId("timeline"), byId("lanes"), choose, (lane) => this.fold(lane));
    const isFoldedAway = (request, subagent) => this.isFoldedAway(request, subagent);
    this.messages = new MessagesPanel(byId("messages"), this.recording, isFoldedAway);
    this.state = new StatePanel(byId("state"));
    this.listen();
    this.refresh();
    this.choose(this.shown.at(-1) ?? 0);
    if (data.live) this.follow();
  }

  listen() {
    const on = (id, event, act) => byId(id).addEventListener(event, act);
    on("scrubber", "input", () => this.choose(Number(byId("scrubber").value), { isScrubbing: true }));
    on("previous", "click", () => this.step(-1));
    on("next", "click", () => this.step(1));
    on("mark", "click", () => this.markMoment());
    on("search", "input", () => this.searchSoon());
    on("search", "keydown", (event) => event.key === "Enter" && this.nextFound(event.shiftKey ? -1 : 1));
    on("next-found", "click", () => this.nextFound(1));
    on("previous-found", "click", () => this.nextFound(-1));
    on("rows", "scroll", () => this.drawRows());
    byId("filter").append(...Object.keys(FILTERS).map((name) => h("option", {}, name)));
    on("filter", "change", () => {
      this.filter = FILTERS[byId("filter").value];
      this.refresh();
      this.showMoment();
    });
    for (const tab of document.querySelectorAll("[data-tab]")) {
      tab.addEventListener("click", () => this.open(tab.dataset.tab));
    }
    window.addEventListener("resize", () => {
      this.refresh();
      this.showMoment();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.timeline.draw());
    window.addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    if (["INPUT", "SELECT"].includes(event.target.tagName) && event.target.type !== "range") return;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const acts = {
      ArrowRight: () => this.step(1),
      ArrowDown: () => this.step(1),
      ArrowLeft: () => this.step(-1),
      ArrowUp: () => this.step(-1),
      Home: () => this.choose(this.shown[0]),
      End: () => this.choose(this.shown[this.shown.length - 1]),
      Enter: () => this.foldRun(this.runAt(this.at)),
      "/": () => byId("search").focus(),
      m: () => this.markMoment(),
    };
    if (acts[event.key]) {
      event.preventDefault();
      acts[event.key]();
    }
  }

  /** Find the rows to show anew: after a fold, a filter, or new rows. */
  refresh() {
    const { recording } = this;
    const isShown = (row) => this.filter(row) && this.timeline.homeOf(row) === recording.lanes[row.l];
    this.shown = this.withFoldedDeltas(recording.rows.filter(isShown));
    byId("scrubber").max = Math.max(0, recording.rows.length - 1);
    byId("space").style.height = `${this.shown.length * ROW_HEIGHT}px`;
    byId("facts").textContent = this.facts();
    byId("facts").classList.toggle("waiting", this.recording.questions.size > 0);
    this.timeline.draw();
    this.drawRows();
  }

  /** Return the rows to list: of deltas of one text that follow each other in their lane, the last stands for all. */
  withFoldedDeltas(rows) {
    const latest = new Map();
    const runs = [];
    for (const row of rows) {
      const stream = streamOf(row);
      const run = latest.get(row.l);
      if (stream !== null && run?.stream === stream) {
        run.rows.push(row.i);
      } else {
        latest.set(row.l, { stream, rows: [row.i] });
        runs.push(latest.get(row.l));
      }
    }
    this.runs = new Map();
    const shown = [];
    for (const run of runs) {
      run.isFolded = run.rows.length > 1 && !this.unfolded.has(run.rows[0]);
      if (run.rows.length > 1) this.runs.set(run.isFolded ? run.rows.at(-1) : run.rows[0], run);
      shown.push(...(run.isFolded ? run.rows.slice(-1) : run.rows));
    }
    // Those of agents that work side by side lie between each other.
    return shown.sort((one, other) => one - other);
  }

  runAt(index) {
    return [...this.runs.values()].find((run) => run.rows.includes(index));
  }

  /** Fold or unfold deltas, and choose a row of theirs that is listed. */
  foldRun(run) {
    if (!run) return;
    if (run.isFolded) this.unfolded.add(run.rows[0]);
    else this.unfolded.delete(run.rows[0]);
    this.refresh();
    this.choose(run.isFolded ? run.rows[0] : run.rows.at(-1));
  }

  facts() {
    const { rows, requests, events, warnings, errors, usage, questions } = this.recording;
    const seconds = rows.length ? rows[rows.length - 1].t : 0;
    const parts = [counted(requests.length, "request"), counted(events, "event"), duration(seconds)];
    if (usage.length) parts.push(tokensText(usage));
    if (questions.size) parts.push(`waits for ${counted(questions.size, "answer")}`);
    if (warnings.length) parts.push(counted(warnings.length, "warning"));
    if (errors.length) parts.push(counted(errors.length, "error"));
    return parts.join(" · ");
  }

  choose(row, { isScrubbing = false } = {}) {
    if (row === undefined || !this.recording.rows[row]) return;
    this.at = row;
    if (!isScrubbing) byId("scrubber").value = row;
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = null;
      this.showMoment();
    });
  }

  step(by) {
    const place = firstAtLeast(this.shown, this.at);
    const isThere = this.shown[place] === this.at;
    this.choose(this.shown[by > 0 && !isThere ? place : place + by]);
  }

  showMoment() {
    const row = this.recording.rows[this.at];
    if (!row) return;
    byId("moment").textContent = `${row.t.toFixed(3)} s · row ${this.at + 1} of ${this.recording.rows.length}`;
    this.timeline.moveCursor(this.at, this.marked);
    this.scrollToRow();
    this.drawRows();
    this.showTab(row);
  }

  showTab(row) {
    const { recording } = this;
    const choose = (each) => this.choose(each);
    const previous = recording.before(this.at);
    const comparedWith = this.marked ?? previous;
    // The earlier one first: the later one shares what did not change since.
    const [early, late] = [comparedWith ?? this.at, this.at].sort((one, other) => one - other).map((each) => recording.conversationAt(each));
    const [before, conversation] = comparedWith > this.at ? [late, early] : [early, late];
    switch (this.tab) {
      case "messages":
        this.messages.show(conversation.messages ?? [], previous === undefined ? conversation.messages : before.messages, row.r, this.at);
        break;
      case "state": {
        const since = this.marked === null ? "the moment before" : `the marked moment, row ${this.marked + 1}`;
        this.state.show(conversation.state, previous === undefined && this.marked === null ? conversation.state : before.state, since);
        break;
      }
      case "event":
        this.fill("event", this.at, () => rowDetails(recording, row));
        break;
      case "tools":
        this.fill("tools", recording.rows.length, () => toolTable(recording, choose));
        break;
      case "tokens":
        this.fill("tokens", recording.rows.length, () => tokenTable(recording, this.prices, choose));
        break;
      case "warnings":
        this.fill("warnings", recording.rows.length, () => warningTable(recording, choose));
        break;
      default:
        this.fill("request", `${row.r} ${recording.requests[row.r]?.rows.length}`, () => requestDetails(recording, row));
    }
  }

  /** Draw a panel, unless it shows the same already. */
  fill(id, key, draw) {
    const panel = byId(id);
    if (panel.dataset.shown === String(key)) return;
    panel.dataset.shown = key;
    panel.replaceChildren();
    append(panel, draw());
  }

  open(tab) {
    this.tab = tab;
    for (const each of document.querySelectorAll("[data-tab]")) {
      each.setAttribute("aria-selected", String(each.dataset.tab === tab));
      byId(each.dataset.tab).hidden = each.dataset.tab !== tab;
    }
    this.showMoment();
  }

  markMoment() {
    this.marked = this.marked === this.at ? null : this.at;
    byId("mark").textContent = this.marked === null ? "Mark" : `Marked: row ${this.marked + 1}`;
    this.showMoment();
  }

  /** Fold or unfold what is below a lane: its lanes, rows and messages. */
  fold(lane) {
    lane.isFolded = !lane.isFolded;
    this.refresh();
    this.showMoment();
  }

  isFoldedAway(request, subagent) {
    const row = typeof subagent === "string" ? this.rowOfSubagent(request, subagent) : undefined;
    return row !== undefined && this.timeline.homeOf(row) !== this.recording.lanes[row.l];
  }

  rowOfSubagent(request, subagent) {
    const { rows, requests } = this.recording;
    const known = (this.subagentRows ??= new Map());
    const key = `${request} ${subagent}`;
    if (!known.has(key)) {
      const at = (requests[request]?.rows ?? []).find((each) => rows[each].d?.subagentRunId === subagent);
      if (at !== undefined) known.set(key, rows[at]);
    }
    return known.get(key);
  }

  searchSoon() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => {
      this.found = this.search.find(byId("search").value);
      this.isFound = new Set(this.found);
      const next = this.found[firstAtLeast(this.found, this.at)] ?? this.found[0];
      if (next !== undefined) this.choose(next);
      this.showFound();
      this.drawRows();
    }, 120);
  }

  nextFound(by) {
    const place = firstAtLeast(this.found, this.at);
    const isThere = this.found[place] === this.at;
    const next = place + (by > 0 && !isThere ? 0 : by);
    this.choose(this.found[(next + this.found.length) % this.found.length]);
    this.showFound();
  }

  showFound() {
    const place = firstAtLeast(this.found, this.at);
    const text = byId("search").value && (this.found.length ? `${Math.min(place + 1, this.found.length)} of ${this.found.length}` : "nothing found");
    byId("found").textContent = text;
  }

  scrollToRow() {
    const list = byId("rows");
    const top = firstAtLeast(this.shown, this.at) * ROW_HEIGHT;
    if (top < list.scrollTop || top > list.scrollTop + list.clientHeight - ROW_HEIGHT) {
      list.scrollTop = top - list.clientHeight / 2;
    }
  }

  /** Draw those rows of the list that can be seen. */
  drawRows() {
    const list = byId("rows");
    const first = Math.max(0, Math.floor(list.scrollTop / ROW_HEIGHT) - 5);
    const last = Math.ceil((list.scrollTop + list.clientHeight) / ROW_HEIGHT) + 5;
    byId("space").replaceChildren(...this.shown.slice(first, last).map((row, at) => this.drawnRow(row, first + at)));
  }

  drawnRow(index, place) {
    const row = this.recording.rows[index];
    const lane = this.recording.lanes[row.l];
    const run = this.runs.get(index);
    const folded = run?.isFolded ? run.rows.map((each) => this.recording.rows[each]) : [row];
    const earlier = this.recording.rows[this.shown[place - 1]];
    const gap = earlier ? Math.max(0, folded[0].t - earlier.t) : 0;
    const has = (isSo) => folded.some(isSo);
    const marks = { bad: (each) => each.isBad, warned: (each) => each.w, found: (each) => this.isFound?.has(each.i) };
    const classes = Object.keys(marks).filter((name) => has(marks[name]));
    if (has((each) => each.i === this.marked)) classes.push("marked");
    const element = h(
      ["div", "row", `f-${row.family}`, ...classes].join("."),
      { role: "option", "aria-selected": String(has((each) => each.i === this.at)), onclick: () => this.choose(index) },
      h("span.time", {}, row.t.toFixed(3)),
      h(`span.gap${gap > 0.5 ? ".long" : ""}`, {}, gap >= 0.001 ? `+${duration(gap)}` : ""),
      run ? this.foldButton(run) : null,
      h("span.name", {}, row.q ? `${row.name}: waits` : row.name),
      run?.isFolded ? h("span.count", {}, `×${run.rows.length} in ${duration(row.t - folded[0].t)}`) : null,
      lane?.kind === "subagent" ? h("span.owner", {}, lane.name) : null,
      h("span.summary", {}, run?.isFolded ? joined(folded) : summaryOf(row))
    );
    element.style.top = `${place * ROW_HEIGHT}px`;
    return element;
  }

  foldButton(run) {
    const onclick = (event) => {
      event.stopPropagation();
      this.foldRun(run);
    };
    const label = `${run.isFolded ? "Show" : "Fold"} ${run.rows.length} pieces`;
    return h("button.fold", { onclick, "aria-label": label, "aria-expanded": String(!run.isFolded) }, run.isFolded ? "▸" : "▾");
  }

  /** Draw new rows, and rest three times as long as that takes. */
  refreshSoon() {
    this.refreshing ??= setTimeout(() => {
      const began = performance.now();
      this.refreshing = null;
      this.refresh();
      if (this.isFollowing) this.choose(this.recording.rows.length - 1);
      else this.showMoment();
      this.rest = 3 * (performance.now() - began);
    }, this.rest ?? 0);
  }

  /** Take in the rows that the server sends while the recording continues. */
  follow() {
    document.body.classList.add("live");
    const source = new EventSource(`rows?after=${this.recording.rows.length}`);
    source.onmessage = (event) => {
      const { after, rows } = JSON.parse(event.data);
      const wasLast = this.at >= this.recording.rows.length - 1;
      rows.slice(Math.max(0, this.recording.rows.length - after)).forEach((row) => this.recording.add(row));
      this.isFollowing = (this.refreshing ? this.isFollowing : wasLast) && byId("follow").checked;
      this.refreshSoon();
    };
    source.onopen = () => (byId("connection").textContent = "live");
    source.onerror = () => (byId("connection").textContent = "not connected");
  }
}

/** Return a name for the text that a row has a piece of; null for rows without one. */
function streamOf(row) {
  const id = row.d?.messageId ?? row.d?.toolCallId ?? row.d?.entityId;
  return typeof row.d?.delta === "string" ? `${row.r} ${row.name} ${oneLine(id)}` : null;
}

function joined(rows) {
  return shortened(rows.map((row) => row.d.delta).join(""), 160).replaceAll("\n", "↵");
}

/** Describe a row in a line. */
function summaryOf(row) {
  const data = row.d ?? {};
  if (row.k === "request") return `${data.verb} · ${counted((data.input?.messages ?? []).length, "message")}`;
  if (row.k === "header") return `${data.time} · agui_client ${data.package}`;
  if (row.k === "response") return `${data.status ?? ""} ${data.error ?? ""} ${data.address}`;
  if (row.k === "end") return `${data.reason} ${data.error?.type ?? ""}`;
  if (row.k === "outcome" || row.k === "call") return row.s[0];
  if (row.k === "tool") return `${row.a.name} ${row.a.facts} ${oneLine(row.a.result, 80)}`;
  const { type, subagentRunId, metadata, ...rest } = data;
  const named = ["delta", "toolCallName", "stepName", "message", "content", "name", "snapshot", "patch", "messageId", "toolCallId"];
  const first = named.find((name) => rest[name] !== undefined);
  const value = first ? rest[first] : Object.keys(rest).length ? rest : "";
  return oneLine(value, 160).replaceAll("\n", "↵");
}

window.page = new Page(JSON.parse(byId("data").textContent));
