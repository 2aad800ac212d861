/* Pages of MCP servers: a person opens one above the composer, in frames that reach nothing (mcp_apps/host.js). */

const [APP_ACTIVITY, APP_PAGE] = ["mcp-apps", "text/html;profile=mcp-app"];

/** Ask the server of a page something, by a run on a thread of its own; what is refused is an error. */
async function askServer({ serverHash, serverId }, method, params) {
  const id = crypto.randomUUID();
  const asked = { serverHash, ...(serverId && { serverId }), method, params };
  const forwardedProps = { __proxiedMCPRequest: asked };
  const input = { threadId: id, runId: id, messages: [], tools: [], context: [], state: {}, forwardedProps };
  let result = null;
  for await (const events of eventsOf(await post("", input), () => {})) {
    for (const event of events) {
      if (event.type === "RUN_FINISHED") result = event.result;
      if (event.type === "RUN_ERROR") throw new Error(event.message);
    }
  }
  if (!result || result.error) throw new Error(result?.error ?? "Pages of tools are not served here.");
  return result;
}

/** Draw the call of a tool that has a page: its address, the text of the result, and a button that opens it. */
function drawnApp({ id, content }) {
  const text = textOf((content?.result?.content ?? []).filter((part) => part?.type === "text"));
  return h("article.message.activity", { "data-id": id, "aria-label": "Page of a tool" },
    h("div.agui-line", {}, `page ${content?.resourceUri}: ${shortened(text, 400)}`),
    h("button", { type: "button", "data-app": id }, "Open the page"));
}

class AppPanel {
  /** `say` is called with a message that a person wants to be sent, `complain` with a sentence. */
  constructor(place, say, complain) {
    Object.assign(this, { place, say, complain, round: null });
  }

  clear() {
    this.round = null;
    this.place.replaceChildren();
  }

  async open({ content }) {
    this.clear();
    const round = this.round = {};
    try {
      const { contents } = await askServer(content, "resources/read", { uri: content.resourceUri });
      const part = contents?.find(({ mimeType }) => mimeType?.replaceAll(" ", "").toLowerCase() === APP_PAGE);
      if (typeof part?.text !== "string") throw new Error("The server has no such page.");
      if (round !== this.round) return;
      const wanted = Object.values(part._meta?.ui?.csp ?? {}).flat().map(String);
      const page = { html: part.text, arguments: content.toolInput ?? {}, result: content.result ?? {}, wanted };
      const host = { ask: (...asked) => askServer(content, ...asked), say: this.say, close: () => this.clear() };
      this.place.replaceChildren(hostedPage(page, (frame) => { frame.src = `${BASE}/app-frame`; }, host));
    } catch (error) {
      const why = error.constructor === Error ? error.message : messageOf(error);
      if (round === this.round) this.complain(`The page could not be opened: ${why}`);
    }
  }
}
