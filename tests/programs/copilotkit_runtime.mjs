// CopilotKit's runtime in front of an agent whose runs are kept: `node copilotkit_runtime.mjs URL own|begin|connect`.
//
// A page begins a run and leaves it, and connects again: with the runtime's own runner in one process (own), or before
// (begin) and after (connect) a restart of the runtime. Prints what the page has each time, as JSON.

import { createServer } from "node:http";

import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";
import { CopilotRuntime, InMemoryAgentRunner } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";

const [url, story] = process.argv.slice(2);

class ConnectingAgent extends HttpAgent {
  connect(input) {
    const address = new URL("connect", this.url).href;
    return transformHttpEventStream(runHttpRequest(() => this.fetch(address, this.requestInit(input))));
  }
}

// The agent keeps the runs, so it is asked for them: they are there after a restart of the runtime, too.
class KeptRunsRunner extends InMemoryAgentRunner {
  connect({ threadId }) {
    const empty = { messages: [], tools: [], context: [], state: {}, forwardedProps: {} };
    return new ConnectingAgent({ url }).connect({ threadId, runId: crypto.randomUUID(), ...empty });
  }
}

const runner = story === "own" ? new InMemoryAgentRunner() : new KeptRunsRunner();
const runtime = new CopilotRuntime({ agents: { default: new HttpAgent({ url }) }, runner });
const server = createServer(createCopilotNodeListener({ runtime, basePath: "/api" }));
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const address = `http://127.0.0.1:${server.address().port}/api/agent/default/run`;
const client = () => new ConnectingAgent({ url: address, threadId: story === "own" ? "own" : "restarted" });
const seen = [];
const see = ({ messages, pendingInterrupts }) => seen.push({
  roles: messages.map(({ role }) => role),
  text: messages.filter(({ role }) => role === "assistant").map(({ content }) => content ?? "").join(""),
  asked: pendingInterrupts.map(({ message }) => message),
});

if (story !== "connect") {
  const page = client();
  page.addMessage({ id: "u", role: "user", content: "Plan my Saturday, and book the ferry." });
  await page.runAgent({}, { onTextMessageContentEvent: () => page.abortRun() });
  see(page);
}
if (story !== "begin") {
  const page = client();
  await page.connectAgent();
  see(page);
  const resume = page.pendingInterrupts.map(({ id }) => (
    { interruptId: id, status: "resolved", payload: { approved: true } }));
  await page.runAgent({ resume });
  see(page);
}
process.stdout.write(JSON.stringify(seen), () => process.exit());
