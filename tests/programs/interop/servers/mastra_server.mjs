// Mastra: an agent with a scripted model and memory, as the AG-UI adapter's MastraAgent.
//
// `/` sends the adapter's own events as they are; `/copilotkit` is CopilotKit's runtime in front of the same agent.

import { EventType } from "@ag-ui/core";
import { EventEncoder } from "@ag-ui/encoder";
import { MastraAgent } from "@ag-ui/mastra";
import { CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";
import { Mastra } from "@mastra/core";
import { Agent } from "@mastra/core/agent";
import { InMemoryStore } from "@mastra/core/storage";
import { createTool } from "@mastra/core/tools";
import { Memory } from "@mastra/memory";
import { z } from "zod";
import * as script from "./script.mjs";

const joined = (parts, type) => parts.filter((part) => part.type === type).map((part) => part.text).join("");
const textOf = ({ type, value }) => (type.endsWith("text") ? value : typeof value === "string" ? value : JSON.stringify(value));

function* history(prompt) {
  for (const { role, content } of prompt) {
    if (role === "user") yield { role, text: joined(content, "text") };
    if (role === "assistant") {
      const calls = content.filter((part) => part.type === "tool-call").map((part) => part.toolCallId);
      yield { role, text: joined(content, "text"), calls };
      // A provider takes the results of its own tools in the assistant's message.
    }
    if (role === "tool")
      for (const part of content) yield { role, text: textOf(part.output), callId: part.toolCallId };
  }
}

/** The state, which Mastra's memory puts into a system message, behind an empty example of it. */
function stateOf(prompt) {
  const told = prompt.filter(({ role }) => role === "system").map(({ content }) => content).join("\n");
  const found = told.match(/<working_memory_data>\s*(\{[\s\S]*?\})\s*<\/working_memory_data>/);
  return found ? JSON.parse(found[1]) : {};
}

async function* parts(prompt) {
  yield { type: "stream-start", warnings: [] };
  let open = null;
  let finishReason = "stop";
  for await (const piece of script.replying([...history(prompt)], stateOf(prompt))) {
    const kind = "text" in piece ? "text" : "thought" in piece ? "reasoning" : null;
    if (open && open !== kind) yield { type: `${open}-end`, id: open };
    if (kind && open !== kind) yield { type: `${kind}-start`, id: kind };
    open = kind;
    if (kind) yield { type: `${kind}-delta`, id: kind, delta: piece.text ?? piece.thought };
    else {
      finishReason = "tool-calls";
      const input = JSON.stringify(piece.args);
      yield { type: "tool-input-start", id: piece.id, toolName: piece.name };
      yield { type: "tool-input-delta", id: piece.id, delta: input };
      yield { type: "tool-input-end", id: piece.id };
      yield { type: "tool-call", toolCallId: piece.id, toolName: piece.name, input };
    }
  }
  if (open) yield { type: `${open}-end`, id: open };
  yield { type: "finish", finishReason, usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 } };
}

/** A model as the AI SDK knows it. */
const model = {
  specificationVersion: "v2",
  provider: "scripted",
  modelId: "scripted",
  supportedUrls: {},
  async doStream({ prompt }) {
    const stream = parts(prompt);
    const first = await stream.next();
    return {
      stream: new ReadableStream({
        start: (controller) => controller.enqueue(first.value),
        async pull(controller) {
          const { value, done } = await stream.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
      }),
    };
  },
  async doGenerate() {
    throw new Error("not streamed");
  },
};

const storage = new InMemoryStore();
const memory = new Memory({
  storage,
  options: {
    lastMessages: 100,
    workingMemory: { enabled: true, scope: "resource", schema: z.object({ city: z.string().optional() }) },
  },
});

const city = z.object({ city: z.string() });
const tools = {
  lookup: createTool({ id: "lookup", description: "Look a city up.", inputSchema: city, execute: async (given) => script.lookup(given) }),
  move_to: createTool({
    id: "move_to",
    description: "Move to a city.",
    inputSchema: city,
    execute: async (given, { agent: { threadId, resourceId } }) => {
      await memory.updateWorkingMemory({ threadId, resourceId, workingMemory: JSON.stringify({ city: given.city }) });
      return `moved to ${given.city}`;
    },
  }),
  transfer: createTool({
    id: "transfer",
    description: "Send money, after a person approved it.",
    inputSchema: z.object({ to: z.string(), amount: z.number() }),
    suspendSchema: z.object({ message: z.string() }),
    resumeSchema: z.object({ approved: z.boolean(), editedArgs: z.record(z.any()).optional() }),
    execute: async (given, { agent: { resumeData, suspend } }) => {
      if (!resumeData) return await suspend({ message: `Send ${given.amount} to ${given.to}?` });
      return resumeData.approved ? script.transfer({ ...given, ...resumeData.editedArgs }) : "nothing was sent";
    },
  }),
};

const talk = new Agent({ id: "talk", name: "talk", instructions: "Talk.", model, memory, tools, maxRetries: 0 });
new Mastra({ agents: { talk }, storage, logger: false });

/** An agent for one thread: the adapter takes the thread for the owner of its memory. */
const agent = () => new MastraAgent({ agentId: "talk", agent: talk });

async function plain(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const input = JSON.parse(Buffer.concat(chunks));
  const encoder = new EventEncoder();
  response.writeHead(200, { "content-type": encoder.getContentType() });
  const send = (event) => response.write(encoder.encode(event));
  const events = agent().run(input).subscribe({
    next: send,
    error: (error) => {
      send({ type: EventType.RUN_ERROR, message: String(error?.message ?? error) });
      response.end();
    },
    complete: () => response.end(),
  });
  response.on("close", () => events.unsubscribe());
}

const runtime = new CopilotRuntime({ agents: { talk: agent() } });
const copilotkit = createCopilotNodeListener({ runtime, basePath: "/copilotkit" });

script.serve((request, response) => (request.url === "/" ? plain : copilotkit)(request, response));
