/* The recording: its rows, requests, lanes and tool calls, and the conversation at any row. */

const KEYFRAME_ROWS = 200;
const NOTHING = Object.freeze({ messages: Object.freeze([]), state: undefined });

/** The families of rows, with the words of the legend. */
const FAMILIES = {
  text: "text",
  reasoning: "reasoning",
  tool: "tool call",
  state: "state, messages, activity",
  subagent: "subagent",
  run: "run, step",
  waiting: "run that waits for an answer",
  frame: "request, response",
  other: "other event",
  warning: "warning",
  bad: "error",
};

/** The family of a row, which decides its colour and the filters that show it. */
function familyOf(row) {
  if (row.q) return "waiting";
  if (row.k !== "event") {
    return row.k === "tool" ? "tool" : "frame";
  }
  const type = String(row.d.type ?? "");
  if (type.startsWith("TEXT_")) return "text";
  if (type.startsWith("REASONING_") || type.startsWith("THINKING_")) return "reasoning";
  if (type.startsWith("TOOL_")) return "tool";
  if (type.startsWith("STATE_") || type.startsWith("MESSAGES_") || type.startsWith("ACTIVITY_")) return "state";
  if (type.startsWith("SUBAGENT_")) return "subagent";
  return type.startsWith("RUN_") || type.startsWith("STEP_") ? "run" : "other";
}

class Recording {
  constructor() {
    this.rows = [];
    this.requests = [];
    this.inputs = new Map();
    this.lanes = [];
    this.calls = new Map();
    this.rowsOfCalls = new Map();
    this.speakers = new Map();
    this.questions = new Set();
    this.warnings = [];
    this.errors = [];
    this.usage = [];
    this.drawn = new Map();
    this.events = 0;
  }

  /** Add a row. */
  add(row) {
    row.i = this.rows.length;
    row.name = row.k === "event" ? String(row.d.type ?? "(no type)") : row.k;
    row.family = familyOf(row);
    this.rows.push(row);
    this.lanes.push(...(row.lanes ?? []).map((lane) => ({ ...lane, spans: [], depth: 0, isFolded: false })));
    if (row.k === "event") this.events++;
    if (row.k === "request") this.begin(row);
    for (const id of row.q ?? []) this.questions.add(id);
    const request = this.requests[row.r];
    if (request) {
      row.p = request.rows.length;
      request.rows.push(row.i);
    }
    this.extendSpan(row);
    this.noteCall(row, request);
    if (row.f && request) request.surfaces.push({ at: row.i, repainted: row.f });
    if (row.n) this.speakers.set(...row.n);
    for (const [text, html] of row.m ?? []) this.drawn.set(text, html);
    this.usage.push(...(row.u ?? []).map((each) => ({ ...each, row: row.i })));
    for (const [rule, message, path] of row.w ?? []) this.warnings.push({ row: row.i, rule, message, path });
    const failure = row.e ?? failureOf(row);
    if (failure) this.errors.push({ row: row.i, message: failure });
    row.isBad = Boolean(failure);
  }

  begin(row) {
    const input = this.wholeInput(row.d);
    row.d = { ...row.d, input, base: undefined, same: undefined };
    const conversation = row.c ?? { messages: input.messages ?? [], state: input.state };
    for (const { interruptId } of input.resume ?? []) this.questions.delete(interruptId);
    this.requests.push({ number: this.requests.length, row: row.i, line: row.d, rows: [], frames: [conversation], surfaces: [] });
  }

  /** Return the input of a request with what it refers to, as references.py describes. */
  wholeInput({ request, base, same, input }) {
    const before = this.inputs.get(base);
    const whole = { ...input };
    if (before) {
      for (const name of same) whole[name] = before[name];
      whole.messages = input.messages.flatMap((part) => (Array.isArray(part) ? before.messages.slice(...part) : [part]));
    }
    this.inputs.set(request, whole);
    return whole;
  }

  /** Note the time in which a lane is busy. */
  extendSpan(row) {
    const lane = this.lanes[row.l];
    if (!lane) return;
    const last = lane.spans[lane.spans.length - 1];
    if (last && last.request === row.r) {
      last.end = row.t;
    } else {
      lane.spans.push({ request: row.r, start: row.t, end: row.t });
    }
  }

  noteCall(row, request) {
    if (!row.a) return;
    // A tool that is executed here returns between two requests of a call.
    const key = `${row.d.call ?? request?.line.call} ${row.a.id}`;
    const before = this.calls.get(key) ?? { first: row.i, lane: row.l };
    const isHere = before.isHere || row.k === "tool";
    this.calls.set(key, { ...before, ...row.a, last: row.i, isHere, view: row.v ?? before.view });
    if (!this.rowsOfCalls.has(row.a.id)) this.rowsOfCalls.set(row.a.id, []);
    this.rowsOfCalls.get(row.a.id).push(row);
  }

  /** Return a tool call as it was at a row; undefined if nothing of it was recorded until then. */
  callAt(id, index) {
    return this.rowsOfCalls.get(id)?.findLast((row) => row.i <= index)?.a;
  }

  /** Return the surfaces right after a row by their ids, each as HTML; under "" sentences about what belongs to none. */
  surfacesAt(index) {
    const shown = new Map();
    for (const { at, repainted } of this.requests[this.rows[index]?.r]?.surfaces ?? []) {
      if (at > index) break;
      for (const [id, html] of repainted) html === null ? shown.delete(id) : shown.set(id, html);
    }
    return shown;
  }

  /** Return the messages and the state right after a row; they are never changed afterwards. */
  conversationAt(index) {
    const row = this.rows[index];
    const request = row && this.requests[row.r];
    if (!request) return NOTHING;
    const frame = Math.min(Math.floor(row.p / KEYFRAME_ROWS), request.frames.length - 1);
    let at = frame * KEYFRAME_ROWS;
    let conversation = request.frames[frame];
    if (request.latest && request.latest.at > at && request.latest.at <= row.p) {
      ({ at, conversation } = request.latest);
    }
    let own = new Set();
    while (at < row.p) {
      at++;
      for (const operation of this.rows[request.rows[at]].o ?? []) {
        conversation = changed(conversation, operation, own);
      }
      if (at === request.frames.length * KEYFRAME_ROWS) {
        request.frames.push(conversation);
        own = new Set();
      }
    }
    request.latest = { at, conversation };
    return conversation;
  }

  /** Return the row before this one in the same request; undefined for its first. */
  before(index) {
    const row = this.rows[index];
    return row && row.p > 0 ? this.requests[row.r].rows[row.p - 1] : undefined;
  }
}

function failureOf(row) {
  const error = row.d?.error;
  if (row.k === "event" && (row.name === "RUN_ERROR" || row.name === "SUBAGENT_ERROR")) {
    return `${row.name}: ${row.d.message ?? ""}`;
  }
  if ((row.k === "end" || row.k === "outcome" || row.k === "call") && error) {
    return `${error.type}: ${error.message ?? ""}`;
  }
  return (row.k === "tool" || row.k === "response") && error ? String(error) : null;
}

/** Return a value with an operation of JSON Patch, or an "append", applied; containers that are not `own` are copied. */
function changed(value, operation, own) {
  const path = parts(operation.path);
  const set = (given) => edited(value, path, own, (container, key) => put(container, key, given));
  const insert = (given) =>
    edited(value, path, own, (container, key) => {
      if (Array.isArray(container)) container.splice(key === "-" ? container.length : Number(key), 0, given);
      else put(container, key, given);
    });
  switch (operation.op) {
    case "add":
      return insert(operation.value);
    case "replace":
      return set(operation.value);
    case "append":
      return set(found(value, path) + operation.value);
    case "remove":
      return edited(value, path, own, take);
    case "copy":
      // The same object in two places would be changed in both.
      return insert(structuredClone(found(value, parts(operation.from))));
    case "move": {
      const from = parts(operation.from);
      const moved = found(value, from);
      value = edited(value, from, own, take);
      return insert(moved);
    }
    default:
      return value; // "test" changes nothing
  }
}

/** Split a JSON Pointer. */
function parts(path) {
  return path.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function found(value, path) {
  return path.reduce((container, key) => container[key], value);
}

/** Return a value with an edit made in the container that a path leads to; the edit gets it with the path's last part. */
function edited(value, path, own, edit) {
  const copy = own.has(value) ? value : Array.isArray(value) ? value.slice() : { ...value };
  own.add(copy);
  if (path.length === 1) edit(copy, path[0]);
  else put(copy, path[0], edited(copy[path[0]], path.slice(1), own, edit));
  return copy;
}

function take(container, key) {
  if (Array.isArray(container)) container.splice(Number(key), 1);
  else delete container[key];
}

function put(container, key, member) {
  if (key === "__proto__") {
    // An assignment would change what the object inherits from.
    Object.defineProperty(container, key, { value: member, writable: true, enumerable: true, configurable: true });
  } else {
    container[key] = member;
  }
}

/**
 * Return the differences between two JSON values: path, before and after; undefined for what is not there.
 *
 * The page compares any two moments that its reader picks, so nothing could compare them before.
 */
function differences(before, after, path = [], found = []) {
  if (before === after) return found;
  const isObject = (value) => typeof value === "object" && value !== null;
  if (!isObject(before) || !isObject(after) || Array.isArray(before) !== Array.isArray(after)) {
    found.push({ path, before, after });
    return found;
  }
  const own = (value, name) => (Object.hasOwn(value, name) ? value[name] : undefined);
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    differences(own(before, name), own(after, name), [...path, name], found);
  }
  return found;
}

function pointer(path) {
  return path.length === 0 ? "(all)" : "/" + path.map((each) => String(each)).join("/");
}
