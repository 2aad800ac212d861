// The official TypeScript client reads a served team: `node typescript_reader.mjs URL`.
//
// Asks, approves whatever the team asks until nothing is left, and prints what it saw as JSON.

import { HttpAgent } from "@ag-ui/client";

const agent = new HttpAgent({ url: process.argv[2] });
agent.addMessage({ id: "q", role: "user", content: "Pay, and tell me." });
const runs = [];
const asked = [];

async function run(options = {}) {
  const events = [];
  runs.push(events);
  await agent.runAgent(options, { onEvent: ({ event }) => void events.push([event.type, event.subagentRunId ?? null]) });
}

await run();
while (agent.pendingInterrupts.length > 0 && runs.length < 5) {
  const questions = agent.pendingInterrupts;
  asked.push(...questions.map(({ message }) => message));
  await run({ resume: questions.map(({ id }) => (
    { interruptId: id, status: "resolved", payload: { approved: true } })) });
}
const messages = agent.messages.map(({ role, content, subagentRunId }) => [role, content ?? null, subagentRunId ?? null]);
console.log(JSON.stringify({ runs, asked, messages, state: agent.state }));
