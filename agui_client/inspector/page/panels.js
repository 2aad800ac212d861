/* The panels: messages and state at a moment, the event, tool calls, warnings, and requests. */

const MOST_MESSAGES = 40;
const LONGEST_TEXT = 20000;
const MOST_MEMBERS = 100;
const MOST_CALLS = 1000;

/** Return an element with a text; of a long one its end, and a button for the rest. */
function textBlock(text, name = "div.text") {
  if (text.length <= LONGEST_TEXT) return h(name, {}, text);
  const block = h(name);
  const more = h("button.more", { onclick: () => block.replaceChildren(visible(text)) }, `show all ${text.length} characters`);
  block.append(more, "… " + visible(text.slice(-LONGEST_TEXT)));
  return block;
}

/** Return an element with Markdown that the package drew; its links open beside the page. */
function markdownBlock(html) {
  const block = h("div.text.markdown", { dir: "auto" });
  block.innerHTML = html;
  for (const link of block.querySelectorAll("a")) {
    Object.assign(link, { target: "_blank", rel: "noopener noreferrer" });
  }
  return block;
}

/** Return an element with a surface that the package painted, or with sentences about what belongs to none. */
function surfaceNode(id, html) {
  if (Array.isArray(html)) return h("article.message", {}, h("header", {}, h("b", {}, "surfaces")), html.map((each) => h("div.text", {}, each)));
  const node = h("article.message", {}, h("header", {}, h("b", {}, "surface"), h("code", {}, id)));
  node.insertAdjacentHTML("beforeend", html);
  for (const each of node.querySelectorAll("[data-weight]")) each.style.flex = `${each.dataset.weight} 1 0`;
  return node;
}

/** Draw a picture that came by value, of a plain format; undefined for any other part. */
function picture({ type, source } = {}) {
  const isShown = type === "image" && source?.type === "data" && /^image\/(png|jpeg|gif|webp)$/.test(source.mimeType);
  if (!isShown || !/^[A-Za-z0-9+/]+={0,2}$/.test(source.value)) return undefined;
  return h("img.picture", { src: `data:${source.mimeType};base64,${source.value}`, alt: source.mimeType });
}

class MessagesPanel {
  /** The recording has the HTML of Markdown that agents wrote, made by the package: no images, and no HTML of theirs. */
  constructor(place, recording, isFoldedAway) {
    this.place = place;
    this.recording = recording;
    this.markdown = recording.drawn;
    this.isFoldedAway = isFoldedAway;
    this.nodes = new WeakMap();
    this.most = MOST_MESSAGES;
    this.opened = new Set();
    this.surfaces = new Map();
  }

  show(messages, before, request, at) {
    this.at = at;
    const known = new Set(before);
    const earlier = Math.max(0, messages.length - this.most);
    const nodes = [];
    if (earlier) nodes.push(this.moreButton(earlier, () => this.show(messages, before, request, at)));
    let folded = [];
    let changedNode = null;
    const close = () => {
      if (folded.length) nodes.push(h("div.folded", {}, `${counted(folded.length, "message")} of a folded subagent`));
      folded = [];
    };
    for (const message of messages.slice(earlier)) {
      if (this.isFoldedAway(request, message.subagentRunId)) {
        folded.push(message);
        continue;
      }
      close();
      const node = this.nodeOf(message);
      const isNew = !known.has(message);
      node.classList.toggle("changed", isNew);
      changedNode = isNew ? node : changedNode;
      nodes.push(node);
    }
    close();
    nodes.push(...this.surfaceNodes());
    if (!nodes.length) nodes.push(h("p.empty", {}, "There are no messages at this moment."));
    setChildren(this.place, nodes);
    (changedNode ?? this.place.lastElementChild)?.scrollIntoView({ block: "nearest" });
  }

  /** Return the surfaces of this moment below the messages; the package painted them, and nothing in them can be used. */
  surfaceNodes() {
    const before = this.surfaces;
    this.surfaces = new Map();
    for (const [id, html] of this.recording.surfacesAt(this.at)) {
      const known = before.get(id);
      this.surfaces.set(id, known?.html === html ? known : { html, node: surfaceNode(id, html) });
    }
    return [...this.surfaces.values()].map(({ node }) => node);
  }

  moreButton(earlier, again) {
    const more = () => {
      this.most += 200;
      again();
    };
    return h("button.more", { onclick: more }, `show ${counted(earlier, "earlier message")}`);
  }

  nodeOf(message) {
    const html = message.role === "assistant" ? this.markdown.get(message.content) : undefined;
    const key = [html, ...(message.toolCalls ?? []).map(({ id }) => this.recording.callAt(id, this.at)?.facts)].join();
    let { node, key: before } = this.nodes.get(message) ?? {};
    if (!node || key !== before) {
      node = this.drawn(message);
      this.nodes.set(message, { node, key });
    }
    return node;
  }

  /** Make an element that stays open or closed while the message continues. */
  folding(key, summary, ...content) {
    const ontoggle = (event) => (event.target.open ? this.opened.add(key) : this.opened.delete(key));
    return h("details", { open: this.opened.has(key), ontoggle }, h("summary", {}, summary), content);
  }

  drawn(message) {
    const role = String(message.role ?? "?");
    const subagent = message.subagentRunId;
    const owner = subagent ? h("span.owner", {}, `subagent ${this.recording.speakers.get(subagent) ?? subagent}`) : null;
    const head = h("header", {}, h("b", {}, message.name ? `${role} ${message.name}` : role), owner, h("code", {}, message.id ?? ""));
    const node = h(`article.message.${/^[a-z]+$/.test(role) ? role : "other"}`, {}, head);
    const content = this.content(message);
    node.append(...(role === "reasoning" ? [this.folding(`r${message.id}`, oneLine(message.content ?? "", 80), content)] : content));
    node.append(...(message.toolCalls ?? []).map((call) => this.call(call)));
    if (message.error) node.append(h("div.text.failed", {}, message.error));
    return node;
  }

  content(message) {
    const { content } = message;
    if (content === undefined || content === null || content === "") return [];
    if (message.role === "tool" && !Array.isArray(content)) return [textBlock(prettyIfJson(String(content)), "pre.text")];
    const html = message.role === "assistant" ? this.markdown.get(content) : undefined;
    if (html !== undefined) return [markdownBlock(html)];
    if (typeof content === "string") return [textBlock(content)];
    if (!Array.isArray(content)) return [h("b", {}, message.activityType ?? ""), textBlock(JSON.stringify(content, null, 2), "pre.text")];
    return content.map((part) =>
      part?.type === "text" ? textBlock(String(part.text)) : picture(part) ?? h("div.part", {}, `${part?.type}: ${oneLine(part, 120)}`)
    );
  }

  call(call) {
    const name = call.function?.name ?? "?";
    const noted = this.recording.callAt(call.id, this.at);
    const given = String((noted?.arguments || call.function?.arguments) ?? "");
    const facts = noted ? ` → ${noted.facts}` : "";
    return this.folding(`c${call.id}`, [h("b", {}, `calls ${name} `), oneLine(given, 100), facts], textBlock(prettyIfJson(given), "pre.text"));
  }
}

class StatePanel {
  constructor(place) {
    this.place = place;
    this.tree = h("div.tree");
    this.heading = h("h3");
    this.changes = h("table.changes");
    place.append(this.heading, this.changes, h("h3", {}, "State"), this.tree);
    this.toggled = new Map();
    this.shown = {};
  }

  /** Show a state, and what is different from another one. */
  show(state, before, comparison) {
    const found = state === undefined || before === undefined ? [] : differences(before, state);
    this.heading.textContent = `${counted(found.length, "change")} since ${comparison}`;
    const rows = found.slice(0, MOST_MEMBERS).map((each) =>
      h("tr", {}, h("td.path", {}, pointer(each.path)), h("td.before", {}, oneLine(each.before)), h("td.after", {}, oneLine(each.after)))
    );
    const more = found.length > MOST_MEMBERS ? [h("tr", {}, h("td", {}, `and ${found.length - MOST_MEMBERS} more`))] : [];
    this.changes.replaceChildren(...rows, ...more);
    const marked = new Set();
    for (const { path } of found) {
      path.forEach((_, at) => marked.add(pointer(path.slice(0, at + 1))));
    }
    const key = [...marked].join();
    if (this.shown.state === state && this.shown.key === key) return;
    this.shown = { state, key };
    this.tree.replaceChildren(state === undefined ? h("p.empty", {}, "There is no state at this moment.") : this.node("state", state, [], marked));
  }

  node(name, value, path, marked) {
    const place = path.length ? pointer(path) : "";
    const classes = marked.has(place) ? ".changed" : "";
    if (typeof value !== "object" || value === null) {
      const kind = value === null ? "null" : typeof value;
      return h(`div.leaf${classes}`, {}, h("span.key", {}, name), h(`span.${kind}`, {}, shortened(JSON.stringify(value), 2000)));
    }
    const members = Object.entries(value);
    const count = Array.isArray(value) ? `[${members.length}]` : `{${members.length}}`;
    const isOpen = this.toggled.get(place) ?? (marked.has(place) || (path.length < 4 && members.length <= 30));
    const details = h(`details${classes}`, { open: isOpen }, h("summary", {}, h("span.key", {}, name), h("span.count", {}, count)));
    const fill = () => details.append(...this.members(members, path, marked));
    if (isOpen) fill();
    details.addEventListener("toggle", () => {
      if (details.open === (this.toggled.get(place) ?? isOpen)) return;
      this.toggled.set(place, details.open);
      if (details.open && details.children.length === 1) fill();
    });
    return details;
  }

  members(members, path, marked) {
    const shown = members.slice(0, MOST_MEMBERS).map(([name, each]) => this.node(name, each, [...path, name], marked));
    if (members.length > MOST_MEMBERS) shown.push(h("p.empty", {}, `and ${members.length - MOST_MEMBERS} more`));
    return shown;
  }
}

/** Draw one row: what it is, warnings, and its content as JSON. */
function rowDetails(recording, row) {
  const lane = recording.lanes[row.l];
  const facts = [`row ${row.i + 1}`, `${row.t.toFixed(6)} s`, lane?.name, row.r === undefined ? null : `request ${row.r + 1}`];
  const warnings = (row.w ?? []).map(([rule, message, path]) => h("p.warning", {}, h("b", {}, rule), ` ${message} `, path && h("code", {}, path)));
  return [
    h("h3", {}, row.name),
    h("p.facts", {}, facts.filter(Boolean).join(" · ")),
    row.e ? h("p.failed", {}, `A client stops here: ${row.e}`) : null,
    warnings,
    (row.s ?? []).map((each) => h("p", {}, each)),
    row.a && h("p", {}, h("b", {}, `${row.a.name} `), `${row.a.arguments} → ${row.a.facts}`),
    row.v === undefined ? null : viewFrame(row.v),
    textBlock(JSON.stringify(row.d, null, 2), "pre.text"),
  ];
}

/** Draw the request that a row belongs to, with its attempts and its end. */
function requestDetails(recording, row) {
  const request = recording.requests[row.r];
  if (!request) return [h("p.empty", {}, "This row belongs to no request.")];
  const { agent, input, verb, call, parent } = request.line;
  const ofKind = (kind) => request.rows.map((each) => recording.rows[each]).filter((each) => each.k === kind);
  const title = `${verb} ${agent.url ?? agent.agent_id}`;
  const attempts = ofKind("response").map(({ d }) =>
    h("p", {}, `${d.status ?? "no response"} from ${d.address} after ${duration(d.seconds)}${d.error ? `: ${d.error}` : ""}`)
  );
  const isFilled = (value) => value !== undefined && value !== null && Object.keys(value).length > 0;
  const parts = ["messages", "state", "tools", "context", "forwardedProps", "resume"].filter((name) => isFilled(input[name]));
  return [
    h("h3", {}, title),
    h("p.facts", {}, `call ${call}${parent ? `, inside call ${parent}` : ""} · thread ${input.threadId} · run ${input.runId}`),
    attempts,
    request.rows.flatMap((each) => recording.rows[each].s ?? []).map((each) => h("p", {}, each)),
    parts.map((name) =>
      h("details", { open: name !== "messages" }, h("summary", {}, name), textBlock(JSON.stringify(input[name], null, 2), "pre.text"))
    ),
  ];
}

function toolTable(recording, choose) {
  const { rows } = recording;
  const lines = [...recording.calls.values()].slice(-MOST_CALLS).map((call) => {
    const seconds = rows[call.last].t - rows[call.first].t;
    const line = h(
      "tr",
      { onclick: () => choose(call.last), tabindex: 0, onkeydown: (event) => event.key === "Enter" && choose(call.last) },
      h("td", {}, h("b", {}, call.name || "?"), h("br"), h("small", {}, recording.lanes[call.lane]?.name ?? "")),
      h("td", {}, shortened(call.arguments, 300)),
      h("td", {}, oneLine(call.result, 300)),
      h("td", {}, call.facts, h("br"), h("small", {}, call.isHere ? "" : duration(seconds)))
    );
    return call.view === undefined ? line : [line, h("tr", {}, h("td", { colspan: 4 }, viewFrame(call.view)))];
  });
  if (!lines.length) return [h("p.empty", {}, "No tool was called.")];
  const head = h("tr", {}, ["tool", "arguments", "result", "status"].map((each) => h("th", {}, each)));
  return [h("table.calls", {}, head, lines)];
}

const COUNTS = ["inputTokens", "outputTokens", "totalTokens"];

/** Add up tokens and money; a sum is undefined if nothing of it was reported. */
function summed(usage) {
  const sum = {};
  for (const name of [...COUNTS, "cost"]) {
    const known = usage.map((each) => each[name]).filter((each) => typeof each === "number");
    if (known.length) sum[name] = known.reduce((one, other) => one + other, 0);
  }
  return sum;
}

/** Write money with the digits that it needs: 12.30, 0.0042. */
function money(cost) {
  return cost === undefined ? "" : cost >= 1 ? cost.toFixed(2) : cost.toLocaleString("en", { maximumSignificantDigits: 2 });
}

function tokensText(usage) {
  const { inputTokens, outputTokens, cost } = summed(usage);
  const tokens = `${inputTokens ?? "?"} tokens in, ${outputTokens ?? "?"} out`;
  return cost === undefined ? tokens : `${tokens} · ${money(cost)}`;
}

/** Draw the tokens of each request and model, and the money with the reader's prices. */
function tokenTable(recording, prices, choose) {
  const { usage, rows, requests } = recording;
  if (!usage.length) return [h("p.empty", {}, "The agents reported no tokens.")];
  const cells = (each) => [...COUNTS.map((name) => each[name] ?? "?"), money(each.cost) || "–"].map((text) => h("td.number", {}, text));
  const lines = usage.map((each) => {
    const { number, line } = requests[rows[each.row].r];
    const acts = { onclick: () => choose(each.row), tabindex: 0, onkeydown: (event) => event.key === "Enter" && choose(each.row) };
    return h("tr", acts, h("td", {}, `${number + 1}`), h("td", {}, line.call), h("td", {}, each.model ?? each.provider ?? "?"), cells(each));
  });
  const heads = ["request", "call", "model", "in", "out", "total", "money"].map((each) => h("th", {}, each));
  const sums = h("tr.sum", {}, h("td", { colspan: 3 }, "all"), cells(summed(usage)));
  const given = Object.entries(prices ?? {}).map(([model, [input, output]]) => `${model} ${input} in, ${output} out`);
  const missing = usage.some((each) => each.cost === undefined) ? " What has no price, or reported no tokens, is not in the sum." : "";
  const others = " Models for which you gave no price have that of genai-prices, if it is installed.";
  const own = given.length ? `Money is tokens times the prices that you gave, per million tokens: ${given.join("; ")}.` : "";
  const note = prices
    ? `${own}${missing}${others}`
    : "There is no money without prices: agui inspect --price model=in/out, per million tokens.";
  return [h("table.tokens", {}, h("tr", {}, heads), lines, sums), h("p.facts", {}, note)];
}

/** Show what a view made of a call: in a frame without scripts, forms and ways out. */
function viewFrame(html) {
  const frame = h("iframe", { sandbox: "", title: "the view of the tool", loading: "lazy" });
  frame.srcdoc = `<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><body>${html}`;
  return frame;
}

function warningTable(recording, choose) {
  const lines = [
    ...recording.errors.map((each) => ({ ...each, rule: "error" })),
    ...recording.warnings,
  ].sort((one, other) => one.row - other.row);
  if (!lines.length) return [h("p.empty", {}, "There are no warnings and no errors.")];
  return [
    h(
      "table.warnings",
      {},
      lines.slice(0, 1000).map((each) =>
        h(
          `tr${each.rule === "error" ? ".failed" : ""}`,
          { onclick: () => choose(each.row), tabindex: 0, onkeydown: (event) => event.key === "Enter" && choose(each.row) },
          h("td", {}, h("b", {}, each.rule)),
          h("td", {}, each.message, each.path ? h("code", {}, ` ${each.path}`) : null),
          h("td", {}, `row ${each.row + 1}`)
        )
      )
    ),
  ];
}
