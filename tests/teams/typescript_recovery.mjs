// The official TypeScript client goes on with a served team that fails: `node typescript_recovery.mjs URL`.
//
// Runs the team until it is done, answers what it asks, sends the answers once more when the run fails, and prints what
// it saw as JSON.

import { HttpAgent } from "@ag-ui/client";

const agent = new HttpAgent({ url: process.argv[2] });
agent.addMessage({ id: "q", role: "user", content: "Hi" });
const ends = [];
let asked = [];

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
while (ends.length < 8 && (ends.at(-1) !== "RUN_FINISHED" || agent.pendingInterrupts.length > 0)) {
  if (ends.at(-1) === "RUN_FINISHED") asked = agent.pendingInterrupts;
  const resume = asked.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved: true } }));
  await run(resume.length > 0 ? { resume } : {});
}
const messages = agent.messages.map(({ role, content }) => [role, content ?? null]);
console.log(JSON.stringify({ ends, messages, state: agent.state }));
