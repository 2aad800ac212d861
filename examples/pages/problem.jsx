// What both pages show of errors, tool calls and approvals.
import { useState, useSyncExternalStore } from "react";
import { agent } from "./agent.js";

// CopilotKit has its dark colours below this class.
const scheme = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark", scheme.matches);
scheme.addEventListener("change", paint);
paint();

export function Problem() {
  const problem = useSyncExternalStore(agent.watch, () => agent.problem);
  return problem && (
    <p role="alert" className="problem">{problem.text} <button onClick={problem.again}>Try again</button></p>
  );
}

const followMessages = (changed) => agent.subscribe({ onMessagesChanged: changed }).unsubscribe;

export function ToolCall({ id, name, args, result }) {
  const find = () => agent.messages.findLast((each) => each.role === "tool" && each.toolCallId === id)?.content;
  const last = useSyncExternalStore(followMessages, find) ?? result;
  const shown = typeof last === "string" ? last : JSON.stringify(last);
  return (
    <details className="call">
      <summary>{name}({JSON.stringify(args ?? {})}) {shown === undefined ? "…" : `→ ${shown}`}</summary>
      <pre>{JSON.stringify({ arguments: args, result: last }, null, 2)}</pre>
    </details>
  );
}

// The arguments can be changed, as `editedArgs` of the answer; an answer without them is about the call as it was shown.
export function Approval({ interrupt, answer }) {
  const call = agent.messages.flatMap(({ toolCalls }) => toolCalls ?? []).findLast(({ id }) => id === interrupt.toolCallId);
  const [text, setText] = useState(call?.function.arguments ?? "{}");
  const [fault, setFault] = useState("");
  const approve = () => {
    try {
      const edited = JSON.parse(text);
      answer({ approved: true, ...(text !== call?.function.arguments && { editedArgs: edited }) });
    } catch (error) {
      setFault(`The arguments are not JSON: ${error.message}`);
    }
  };
  return (
    <div role="group" aria-label="Approval" className="approval">
      <p>{interrupt.message}</p>
      {call && <label>Arguments of {call.function.name}<textarea value={text} onChange={({ target }) => setText(target.value)} /></label>}
      {fault && <p role="alert">{fault}</p>}
      <button onClick={approve}>Approve</button> <button onClick={() => answer({ approved: false })}>Deny</button>
    </div>
  );
}
