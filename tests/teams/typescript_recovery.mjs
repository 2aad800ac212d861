// The official TypeScript client goes on with a served team that failed: `node typescript_recovery.mjs URL`.
//
// Answers what the team asks, sends the same answers once more when the run fails, and prints what it saw as JSON.

import { HttpAgent } from "@ag-ui/client";

const agent = new HttpAgent({ url: process.argv[2] });
agent.addMessage({ id: "q", role: "user", content: "Hi" });
const ends = [];

async function run(options = {}) {
  let end = null;
  try {
    await agent.runAgent(options, { onEvent: ({ event }) => { end = event.type; } });
  } catch (error) {
    end = `${end}: thrown`;
  }
  ends.push(end);
}

await run();
const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: true }));
await run({ resume });
await run({ resume });
const messages = agent.messages.map(({ role, content }) => [role, content ?? null]);
console.log(JSON.stringify({ ends, messages, state: agent.state }));
