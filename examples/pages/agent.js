// The agent of both pages: it sends a thread again, takes up streams that broke, and has what went wrong for `Problem`.
import { HttpAgent } from "@ag-ui/client";
import { Observable } from "rxjs";

const DELAYS = [0.5, 1, 2, 4];
const ENDS = ["RUN_FINISHED", "RUN_ERROR"];

class RefusedError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

class StoredAgent extends HttpAgent {
  problem = null;
  watchers = new Set();
  // What "Try again" does with the input of a run that was refused, or failed, and what a tab does that is looked at again.
  again = () => {};
  refresh = () => {};

  watch = (watcher) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  tell(problem) {
    this.problem = problem;
    this.watchers.forEach((each) => each());
  }

  run(input) {
    return this.events("", input);
  }

  connect(input) {
    return this.events("connect", input);
  }

  // Its runs continue without the page, so the server is told of a run that a person stops.
  abortRun() {
    const body = JSON.stringify({ threadId: this.threadId });
    fetch(`${this.url}stop`, { method: "POST", headers: { "content-type": "application/json" }, body }).catch(() => {});
    super.abortRun();
  }

  events(path, given) {
    // CopilotKit answers a question under the id of the run that asked, where a new request needs one of its own, and
    // notes the answer as the result of the call, which the tool has not given yet.
    const notes = (given.resume ?? []).map(({ payload }) => JSON.stringify(payload));
    const isNote = ({ role, content }) => role === "tool" && notes.includes(content);
    this.setMessages(this.messages.filter((each) => !isNote(each)));
    const messages = given.messages.filter((each) => !isNote(each));
    const input = { ...given, messages, runId: crypto.randomUUID() };
    this.tell(null);
    return new Observable((subscriber) => {
      const left = new AbortController();
      const done = () => subscriber.complete();
      this.follow(path, input, subscriber, AbortSignal.any([left.signal, this.abortController.signal]))
        .then(done, (error) => (left.signal.aborted ? done() : subscriber.error(error)));
      return () => left.abort();
    });
  }

  // The server continues behind the last event that came; without one, the same request is the same run.
  async follow(path, input, subscriber, signal) {
    const init = this.requestInit(input);
    let [cursor, attempt] = ["", 0];
    for (;;) {
      try {
        const headers = { ...init.headers, ...(cursor && { "last-event-id": cursor }) };
        const response = await fetch(this.url + path, { ...init, headers, signal });
        if (!response.ok) throw new RefusedError(response.status, (await response.json()).detail);
        let [isThere, hasEnded] = [false, false];
        for await (const { id, event } of framesOf(response)) {
          [isThere, hasEnded, attempt, cursor] = [true, ENDS.includes(event.type), 0, id || cursor];
          this.tell(event.type === "RUN_ERROR" ? { text: `The run failed: ${event.message}`, again: () => this.again(input) } : null);
          subscriber.next(event);
        }
        // A thread of which nothing is known is an empty stream.
        if (hasEnded || (path === "connect" && !isThere && !cursor)) return;
        throw new TypeError("the stream ended before its run");
      } catch (error) {
        if (signal.aborted) throw error;
        if (error instanceof RefusedError && error.status !== 503) {
          this.tell({ text: `The server refused: ${error.message}`, again: () => this.again(input) });
          throw error;
        }
        await this.pause(DELAYS[Math.min(attempt++, DELAYS.length - 1)], signal);
      }
    }
  }

  async pause(seconds, signal) {
    await new Promise((resolve) => {
      this.resume = resolve;
      this.tell({ text: `The server cannot be reached. The page tries again in ${seconds} s.`, again: resolve });
      setTimeout(resolve, seconds * 1000);
      signal.addEventListener("abort", resolve, { once: true });
    });
    this.resume = null;
  }

  look() {
    if (document.visibilityState !== "visible") return;
    if (this.resume) this.resume();
    else if (!this.isRunning) this.refresh();
  }
}

async function* framesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    const frames = (text += piece.value).split("\n\n");
    text = frames.pop();
    for (const frame of frames) {
      const [id, data] = ["id", "data"].map((name) => frame.match(new RegExp(`^${name}: (.*)$`, "m"))?.[1]);
      if (data) yield { id, event: JSON.parse(data) };
    }
  }
}

// The thread stands in the address, so that a page that is reloaded shows it again.
location.hash ||= crypto.randomUUID();
export const threadId = location.hash.slice(1);
export const agent = new StoredAgent({ url: "/agent/", threadId });
document.addEventListener("visibilitychange", () => agent.look());
window.addEventListener("online", () => agent.look());
