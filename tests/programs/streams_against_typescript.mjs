// The official TypeScript client reads streams: `node against_typescript.mjs FILE`, with {frames, input} on each line.
//
// Prints on each line what it made of one: its error, whether RUN_ERROR came, events, messages and state.

import { readFileSync } from "node:fs";
import { setImmediate as turn } from "node:timers/promises";

import { HttpAgent } from "@ag-ui/client";

const say = console.log;
for (const level of ["log", "debug", "warn", "error"]) console[level] = () => {};
const encoder = new TextEncoder();

function response(frames) {
  let next = 0;
  async function pull(controller) {
    // One frame to a read, with time in between: a broken frame drops what came in the same read.
    for (let turns = 0; turns < 3; turns++) await turn();
    if (next < frames.length) controller.enqueue(encoder.encode(`data: ${frames[next++]}\n\n`));
    else controller.close();
  }
  const headers = { "content-type": "text/event-stream" };
  return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }), { status: 200, headers });
}

async function read({ frames, input }) {
  const fetch = async () => response(frames);
  const { threadId, messages: initialMessages, state: initialState = {} } = input;
  const agent = new HttpAgent({ url: "http://agent.test/", threadId, initialMessages, initialState, fetch });
  const seen = { error: null, hasRunError: false, events: [] };
  try {
    await agent.runAgent({ runId: input.runId, resume: input.resume }, {
      onEvent: ({ event }) => void seen.events.push(structuredClone(event)),
      onRunErrorEvent: () => void (seen.hasRunError = true),
      onRunFailed: ({ error }) => void (seen.error ??= String(error?.message ?? error)),
    });
  } catch (error) {
    seen.error ??= String(error?.message ?? error);
  }
  try {
    return JSON.stringify({ ...seen, messages: agent.messages, state: agent.state });
  } catch {
    return JSON.stringify({ error: "circular", hasRunError: false, events: [], messages: [], state: null });
  }
}

process.on("unhandledRejection", () => {});
for (const line of readFileSync(process.argv[2], "utf8").trimEnd().split("\n")) say(await read(JSON.parse(line)));
