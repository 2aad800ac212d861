/* Messages, tool calls and the state as elements. */

const ENOUGH = 80;
const AUTHORS = { user: "You", assistant: "Agent", system: "System", developer: "Developer" };

/** Return the text of a message's content; pictures and files are named. */
function textOf(content) {
  if (!Array.isArray(content)) return content ?? "";
  return content.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("\n");
}

/** Draw JSON as a tree that folds. */
function tree(value, key = null, depth = 0) {
  const name = key === null ? [] : [h("span.agui-key", {}, `${key}: `)];
  if (value === null || typeof value !== "object") {
    const text = typeof value === "string" ? value : JSON.stringify(value) ?? "nothing";
    return h("li", {}, ...name, h(typeof value === "string" ? "span.agui-text" : "span", {}, text));
  }
  const members = Object.entries(value);
  if (!members.length) return h("li", {}, ...name, Array.isArray(value) ? "[]" : "{}");
  const details = h("details", { open: depth < 2 && members.length <= 20 },
    h("summary", {}, ...name, h("span.agui-dim", {}, counted(members.length, Array.isArray(value) ? "entry" : "member").replace("entrys", "entries"))),
    h("ul", {}, ...members.slice(0, 1000).map(([each, inside]) => tree(inside, each, depth + 1)),
      ...(members.length > 1000 ? [h("li.agui-dim", {}, `and ${members.length - 1000} more`)] : [])));
  return h("li", {}, details);
}

function treeOf(value) {
  return h("div.agui-tree", {}, h("ul", {}, tree(value)));
}

function parsedOr(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Draw a tool call: a line that says what runs with which arguments and what came of it, and all of it below. */
function drawnCall(call, thread, waiting) {
  const result = thread.messages.findLast((each) => each.role === "tool" && each.toolCallId === call.id);
  const { name, arguments: given } = call.function;
  const fate = waiting.has(call.id) ? ["waits for you", "agui-n-waiting"]
    : result ? (result.error ? [`failed: ${oneLine(result.error, ENOUGH)}`, "agui-bad"] : [`→ ${oneLine(textOf(result.content), ENOUGH)}`, "agui-good"])
      : thread.isRunning ? ["runs …", "agui-dim"] : ["no result", "agui-dim"];
  const shown = parsedOr(given);
  const isEmpty = shown === "" || (shown && typeof shown === "object" && !Object.keys(shown).length);
  return h("details.agui-fold.call", { "data-call": call.id },
    h("summary", {}, h("b.agui-n-tool", {}, name), " ", isEmpty ? "" : h("span", {}, argumentsLine(shown)), " ", h(`span.${fate[1]}`, {}, fate[0])),
    h("div.agui-inside", {}, isEmpty ? h("p.agui-dim", {}, "Without arguments.") : treeOf(shown),
      ...(result ? [h("div.agui-line.agui-dim", {}, result.error ? "Error" : "Result"), treeOf(parsedOr(result.error ?? textOf(result.content)))] : [])));
}

function argumentsLine(value) {
  if (!value || typeof value !== "object" || Array.isArray(value)) return `(${oneLine(value, ENOUGH)})`;
  const all = Object.entries(value).map(([name, each]) => `${name}: ${oneLine(each, 40)}`).join(", ");
  return `(${shortened(all, ENOUGH)})`;
}

/** Draw a message; the buttons below it are given. */
function drawnMessage(message, thread, waiting, buttons) {
  const { role, content, subagentRunId, activityType, toolCalls = [] } = message;
  const who = subagentRunId ? thread.agents.get(subagentRunId) ?? subagentRunId : null;
  const author = who && role !== "user" ? h("div.agui-author", {}, who) : null;
  const text = textOf(content);
  if (role === "reasoning") {
    const isLast = thread.isRunning && thread.messages.at(-1) === message;
    return h("details.agui-fold", { open: isLast }, h("summary.agui-dim", {}, author ? `${who} thought` : "Thought"), h("div.agui-text.agui-dim", {}, ...markdown(text)));
  }
  // Surfaces stand behind the message that carries them, and are drawn by the app.
  if (role === "activity" && activityType === "a2ui-surface") return h("article.message.activity", { "data-id": message.id, hidden: true });
  if (role === "activity" && activityType === APP_ACTIVITY) return drawnApp(message);
  if (role === "activity") {
    return h("details.agui-fold", {}, h("summary.agui-dim", {}, activityType ?? "activity"), treeOf(content));
  }
  const bubble = text
    ? h(`div.agui-bubble.agui-${role}`, { dir: "auto" }, author, h("div.agui-text", {}, ...(role === "user" ? [h("p", {}, text)] : markdown(text))))
    : author;
  const calls = toolCalls.map((call) => drawnCall(call, thread, waiting));
  const label = AUTHORS[role] ?? role;
  return h(`article.message.${role}`, { "data-id": message.id, "aria-label": label }, bubble, ...calls, buttons.length ? h("div.buttons", {}, ...buttons) : null);
}
