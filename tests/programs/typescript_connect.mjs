// The official TypeScript client in front of runs that are kept: `node typescript_connect.mjs URL`.
//
// One client begins a run and leaves it, a second one connects, and a third one answers the question of the run.
// Prints what each of them has, as JSON.

import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";

class KeptRunsAgent extends HttpAgent {
  connect(input) {
    const address = new URL("connect", this.url).href;
    return transformHttpEventStream(runHttpRequest(() => this.fetch(address, this.requestInit(input))));
  }
}

const [url] = process.argv.slice(2);
const client = () => new KeptRunsAgent({ url, threadId: "client" });
const seen = [];
const see = ({ messages, pendingInterrupts }) => seen.push({
  roles: messages.map(({ role }) => role),
  text: messages.filter(({ role }) => role === "assistant").map(({ content }) => content ?? "").join(""),
  asked: pendingInterrupts.map(({ message }) => message),
});

const first = client();
first.addMessage({ id: "u", role: "user", content: "Plan my Saturday, and book the ferry." });
await first.runAgent({}, { onTextMessageContentEvent: () => first.abortRun() });
see(first);

const second = client();
await second.connectAgent();
see(second);

const third = client();
await third.connectAgent();
const resume = third.pendingInterrupts.map(({ id }) => (
  { interruptId: id, status: "resolved", payload: { approved: true } }));
await third.runAgent({ resume });
see(third);

// The second one still has the question, which `connectAgent` refuses to leave without an answer.
second.pendingInterrupts = [];
await second.connectAgent();
see(second);
console.log(JSON.stringify(seen));
