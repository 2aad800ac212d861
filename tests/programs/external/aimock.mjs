// AGUIMock of @copilotkit/aimock, with an answer for each of its builders; its URL is the first line. It stops with its input.
import * as agui from "@copilotkit/aimock/agui";

const mock = new agui.AGUIMock({ port: 0 });
mock.onToolResult("c", agui.buildTextResponse("Found."));  // the first that matches answers
const runs = {
  "a chunk": agui.buildTextChunkResponse("Hello"),
  "a state": agui.buildStateUpdate({ city: "Oslo", legs: [] }),
  "a delta": agui.buildCompositeResponse([
    agui.buildStateUpdate({ legs: [] }),
    agui.buildStateDelta([{ op: "add", path: "/legs/-", value: null }]),
  ]),
  "messages": agui.buildMessagesSnapshot([{ id: "m", role: "assistant", content: "Earlier" }]),
  "reasoning": agui.buildCompositeResponse([agui.buildReasoningResponse("Hm."), agui.buildTextResponse("Hello")]),
  "a reasoning chunk": agui.buildReasoningChunk("Hm.", { messageId: "r" }),
  "an encrypted value": agui.buildCompositeResponse([
    agui.buildMessagesSnapshot([{ id: "m", role: "assistant", content: "Hello" }]),
    agui.buildReasoningEncryptedValue("message", "m", "opaque"),
  ]),
  "an activity": agui.buildCompositeResponse([
    agui.buildActivityResponse("a", "plan", { steps: [] }),
    agui.buildActivityDelta("a", "plan", [{ op: "add", path: "/steps/-", value: "book" }]),
  ]),
  "an error": agui.buildErrorResponse("No quota.", "quota"),
  "a step": agui.buildStepWithText("plan", "Hello"),
  "a call": agui.buildToolCallResponse("look", '{"q": "Oslo"}', { result: "seen" }),
  "a call chunk": agui.buildToolCallChunk("{}", { toolCallId: "c", toolCallName: "look" }),
  "look it up": agui.buildToolCallChunk('{"q": "Oslo"}', { toolCallId: "c", toolCallName: "look" }),
  "a raw event": agui.buildRawEvent({ kind: null }, "model"),
  "a custom event": agui.buildCustomEvent("note", null),
  "usage": agui.buildTextResponse("Hello", { usage: [{ provider: "p", model: "m", inputTokens: 3, outputTokens: 4 }] }),
};
for (const [prompt, events] of Object.entries(runs)) mock.onRun(new RegExp(`^${prompt}$`), events);
mock.onMessage(/^a text$/, "Hello");

console.log(await mock.start());
process.stdin.resume().on("close", () => mock.stop());
