// The words of the scripted models for node, as in script.py, and the way a server is run.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

const LONGEST = 900_000;

const CALLS = {
  lookup: [["lookup", { city: "Oslo" }]],
  weather: [["get_weather", { city: "Oslo" }]],
  both: [
    ["get_weather", { city: "Oslo" }],
    ["get_weather", { city: "Turin" }],
  ],
  buy: [["buy_tickets", { count: 3 }]],
  transfer: [["transfer", { to: "Ada", amount: 5 }]],
  move: [["move_to", { city: "Turin" }]],
  delegate: [["ask_other", { prompt: "transfer" }]],
  consult: [["ask_other", { prompt: "lookup" }]],
  handover: [["transfer_to_other", {}]],
};

/** Refuse what providers refuse: a call without a result right behind it, and a result without its call. */
function check(history) {
  let waiting = new Set();
  for (const { role, calls, callId } of history) {
    if (role === "tool") {
      if (!waiting.delete(callId)) throw new Error(`400: the result of '${callId}' does not follow its call`);
      continue;
    }
    if (waiting.size) break;
    waiting = new Set(calls);
  }
  if (waiting.size) throw new Error(`400: no result right behind the calls ${[...waiting].sort()}`);
}

const words = (text) => text.split(/\s+/).filter(Boolean).map((word) => ({ text: `${word} ` }));

function reply(history, state) {
  check(history);
  let results = [];
  const prompts = [];
  for (const { role, text } of history) {
    if (role === "tool") results.push(text);
    else if (role === "user" && text) {
      results = [];
      prompts.push(...text.split(/\s+/).filter(Boolean));
    }
  }
  if (results.length) return words(`Got ${results.join(" and ")}.`);
  const prompt = prompts.at(-1) ?? "";
  if (prompt.includes("crash")) throw new Error("the model is down");
  if (prompt.includes("slow")) return words("so ".repeat(400));
  if (prompt.includes("think")) return [{ thought: "Let me " }, { thought: "see." }, ...words("I thought.")];
  if (prompt.includes("state")) return words(`The city is ${state?.city ?? "None"}.`);
  for (const [word, calls] of Object.entries(CALLS))
    if (prompt.includes(word))
      return calls.map(([name, args]) => ({ name: prompt.split("=")[1] ?? name, args, id: `call_${randomUUID().replaceAll("-", "").slice(0, 20)}` }));
  return words(`Answer ${prompts.length}.`);
}

/** Say a reply piece by piece, a long one slowly: {text}, {thought} or {name, args, id}. */
export async function* replying(history, state) {
  if (process.env.INTEROP_DEBUG) console.error(JSON.stringify(history), JSON.stringify(state));
  const pieces = reply(history, state);
  for (const piece of pieces) {
    if (pieces.length > 50) await new Promise((done) => setTimeout(done, 50));
    yield piece;
  }
}

export const lookup = ({ city }) => `${city} has 700000 people`;
export const transfer = ({ to, amount }) => `sent ${amount} to ${to}`;

/** Serve on a free port of this machine, and print the port; end with whoever holds stdin open. */
export function serve(listener) {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1", () => process.stdout.write(`PORT ${server.address().port}\n`));
  process.stdin.on("end", () => process.exit(0)).resume();
  setTimeout(() => process.exit(3), LONGEST).unref();
}
