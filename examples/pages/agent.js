// The agent of both pages: it sends a thread again at .../connect, which HttpAgent of @ag-ui/client 1.0 cannot.
import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";

class StoredAgent extends HttpAgent {
  connect(input) {
    return transformHttpEventStream(runHttpRequest(() => this.fetch(`${this.url}connect`, this.requestInit(input))));
  }
}

// The thread stands in the address, so that a page that is reloaded shows it again.
location.hash ||= crypto.randomUUID();
export const threadId = location.hash.slice(1);
export const agent = new StoredAgent({ url: "/agent/", threadId });
