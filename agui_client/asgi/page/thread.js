/* The conversation of a thread, as the events of its runs make it. */

/** Write a member, whatever its name: an assignment to `__proto__` would be none. */
function put(parent, key, value) {
  Object.defineProperty(parent, key, { value, writable: true, enumerable: true, configurable: true });
}

/** Apply a JSON Patch (RFC 6902); what it is applied to may change. */
function patched(document, operations) {
  const root = { "": document };
  const parts = (path) => path.split("/").map((each) => each.replaceAll("~1", "/").replaceAll("~0", "~"));
  const holder = (path) => parts(path).slice(0, -1).reduce((value, key) => {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, key)) throw new Error(`no place ${path}`);
    return value[key];
  }, root);
  const last = (path) => parts(path).at(-1);
  const get = (path) => {
    const [parent, key] = [holder(path), last(path)];
    if (!Object.hasOwn(parent, key)) throw new Error(`no value at ${path}`);
    return parent[key];
  };
  const remove = (path) => {
    const [parent, key, value] = [holder(path), last(path), get(path)];
    if (Array.isArray(parent)) parent.splice(Number(key), 1);
    else delete parent[key];
    return value;
  };
  const add = (path, value) => {
    const [parent, key] = [holder(path), last(path)];
    if (Array.isArray(parent)) parent.splice(key === "-" ? parent.length : Number(key), 0, value);
    else put(parent, key, value);
  };
  for (const { op, path, from, value } of operations) {
    if (op === "add") add(path, value);
    else if (op === "remove") remove(path);
    else if (op === "replace") { get(path); put(holder(path), last(path), value); }
    else if (op === "move") add(path, remove(from));
    else if (op === "copy") add(path, structuredClone(get(from)));
    else if (op === "test" && JSON.stringify(get(path)) !== JSON.stringify(value)) throw new Error(`another value at ${path}`);
  }
  return root[""];
}

class Thread {
  constructor() {
    this.agents = new Map();
    this.reset([]);
  }

  /** Begin with messages, before the events of a run. */
  reset(messages) {
    this.messages = [...messages];
    this.interrupts = [];
    this.failure = null;
    this.left = null;
    this.changed = null;
    this.isRunning = false;
    this.runId = null;
  }

  find(id) {
    return this.messages.findLast((each) => each.id === id);
  }

  /** Note that a message has changed; null has all of them drawn anew. */
  note(id) {
    this.changed?.add(id);
  }

  /** Return the ids of messages that have changed since the last look; null for all. */
  takeChanged() {
    const changed = this.changed;
    this.changed = new Set();
    return changed;
  }

  callOf(id) {
    return this.callerOf(id)?.toolCalls.findLast((each) => each.id === id);
  }

  callerOf(id) {
    return this.messages.findLast((each) => each.toolCalls?.some((call) => call.id === id));
  }

  push(message, { subagentRunId, timestamp }) {
    this.messages.push({ ...message, ...(subagentRunId && { subagentRunId }), ...(timestamp && { timestamp }) });
    this.note(message.id);
  }

  begin(id, role, event) {
    if (!this.find(id)) this.push({ id, role, content: "" }, event);
  }

  extend(id, text) {
    const message = this.find(id);
    if (message) message.content = (message.content ?? "") + text;
    this.note(id);
  }

  reduce(event) {
    REDUCERS[event.type]?.(this, event);
  }
}

const REDUCERS = {
  RUN_STARTED(thread, event) {
    Object.assign(thread, { runId: event.runId, isRunning: true, interrupts: [], failure: null });
    thread.left = event.metadata?.["agui-client"]?.leftBranch ?? thread.left;
  },
  RUN_FINISHED(thread, event) {
    thread.isRunning = false;
    thread.interrupts = event.outcome?.type === "interrupt" ? event.outcome.interrupts : [];
    thread.changed = null;
  },
  RUN_ERROR(thread, event) {
    Object.assign(thread, { isRunning: false, failure: event, changed: null });
  },
  TEXT_MESSAGE_START: (thread, event) => thread.begin(event.messageId, event.role ?? "assistant", event),
  TEXT_MESSAGE_CONTENT: (thread, event) => thread.extend(event.messageId, event.delta),
  REASONING_MESSAGE_START: (thread, event) => thread.begin(event.messageId, "reasoning", event),
  REASONING_MESSAGE_CONTENT: (thread, event) => thread.extend(event.messageId, event.delta),
  TOOL_CALL_START(thread, event) {
    const id = event.parentMessageId ?? event.toolCallId;
    if (!thread.find(id)) thread.push({ id, role: "assistant" }, event);
    const call = { id: event.toolCallId, type: "function", function: { name: event.toolCallName, arguments: "" } };
    (thread.find(id).toolCalls ??= []).push(call);
    thread.note(id);
  },
  TOOL_CALL_ARGS(thread, event) {
    const call = thread.callOf(event.toolCallId);
    if (call) call.function.arguments += event.delta;
    thread.note(thread.callerOf(event.toolCallId)?.id);
  },
  TOOL_CALL_RESULT(thread, event) {
    const { messageId, toolCallId, content, error } = event;
    thread.push({ id: messageId, role: "tool", toolCallId, content, ...(error && { error }) }, event);
    thread.note(thread.callerOf(toolCallId)?.id);
  },
  MESSAGES_SNAPSHOT: (thread, event) => Object.assign(thread, { messages: event.messages, changed: null }),
  STATE_SNAPSHOT: (thread, event) => { thread.state = event.snapshot; },
  STATE_DELTA: (thread, event) => { thread.state = patched(thread.state, event.delta); },
  ACTIVITY_SNAPSHOT(thread, event) {
    const { messageId: id, activityType, content } = event;
    const there = thread.find(id);
    if (there && event.replace === false) return;
    if (there) Object.assign(there, { activityType, content });
    else thread.push({ id, role: "activity", activityType, content }, event);
    thread.note(id);
  },
  ACTIVITY_DELTA(thread, event) {
    const message = thread.find(event.messageId);
    if (message) message.content = patched(message.content, event.patch);
    thread.note(event.messageId);
  },
  SUBAGENT_STARTED: (thread, event) => thread.agents.set(event.subagentRunId, event.name ?? event.subagentRunId),
};
