// The official TypeScript client against the backend: `node typescript_client.mjs URL tools|abort FILE`.
//
// The abort waits for the file, which is there when the run has reached a remote agent.
//
// Prints what it saw as JSON: the round trip of a tool, an interrupt and its answer; or the events before an abort.

import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { HttpAgent } from "@ag-ui/client";

const [url, story, reached] = process.argv.slice(2);
const agent = new HttpAgent({ url });
agent.addMessage({ id: crypto.randomUUID(), role: "user", content: "Plan my Saturday, and book the ferry." });

const locate = { name: "locate", description: "Where the user is.", parameters: { type: "object", properties: {} } };
const runs = [];

async function abort() {
  while (!existsSync(reached)) await sleep(20);
  agent.abortRun();
}

async function run(options = {}) {
  const events = [];
  runs.push(events);
  await agent.runAgent({ tools: [locate], ...options }, {
    onEvent: ({ event }) => void events.push(event.type),
    onToolCallEndEvent: () => void (story === "abort" && abort()),
  });
}

const results = () => agent.messages.filter(({ role }) => role === "tool").map(({ content }) => content);

await run();
if (story === "tools") {
  const calls = agent.messages.flatMap(({ toolCalls }) => toolCalls ?? []);
  const { id } = calls.find((each) => each.function.name === "locate");
  agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: id, content: "Bergen" });
  await run();
  const questions = agent.pendingInterrupts;
  await run({ resume: questions.map(({ id }) => (
    { interruptId: id, status: "resolved", payload: { approved: true } })) });
  const asked = questions.map(({ message }) => message);
  console.log(JSON.stringify({ runs, asked, results: results(), answer: agent.messages.at(-1).content }));
} else {
  console.log(JSON.stringify({ runs, results: results() }));
}
