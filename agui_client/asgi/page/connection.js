/* Requests to the app, and the events of its responses. */

/** Below the address of the page, which is that of the app, with or without a slash at its end. */
const BASE = location.pathname.replace(/\/$/, "");

class RefusedError extends Error {
  constructor(status, text, seconds) {
    super(text);
    this.status = status;
    this.seconds = seconds;
  }
}

/** Post JSON; a response that is not a success is a RefusedError, and a server that is not there a TypeError. */
async function post(path, body, signal) {
  const response = await fetch(`${BASE}/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  if (response.ok) return response;
  const seconds = Number(response.headers.get("retry-after")) || null;
  throw new RefusedError(response.status, reasonOf(response, await response.text()), seconds);
}

function reasonOf(response, text) {
  if (response.status === 401) return "You are not signed in, or not any more. Sign in, and try again.";
  if (response.status === 409 && response.headers.has("retry-after")) {
    return "Another reply is being written in this chat, such as for another tab.";
  }
  try {
    const { detail } = JSON.parse(text);
    if (typeof detail === "string") return sentenceOf(detail);
    const faults = detail.map(({ loc, msg }) => `${(loc ?? []).join(".")}: ${msg}`);
    return `The server refused the request: ${faults.join("; ")}.`;
  } catch {
    return `The server responded with status ${response.status}.`;
  }
}

function sentenceOf(text) {
  return ended(text.charAt(0).toUpperCase() + text.slice(1));
}

function ended(text) {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** Yield the events of a response as lists, as many at once as have come; `received` is called with each piece. */
async function* eventsOf(response, received) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      received();
      // What was there before has no end of a frame, unless its last character is the first half of one.
      let [start, end] = [0, text.length - 1];
      text += piece.value;
      const events = [];
      while ((end = text.indexOf("\n\n", Math.max(start, end))) >= 0) {
        const data = text.slice(start, end).split("\n").filter((line) => line.startsWith("data:"));
        if (data.length) events.push(JSON.parse(data.map((line) => line.slice(5)).join("\n")));
        start = end + 2;
      }
      text = text.slice(start);
      if (events.length) yield events;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
