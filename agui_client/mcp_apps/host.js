// Shows a page of an MCP server, and responds to what it asks (MCP Apps, SEP-1865): the host's side of the bridge.
// The page is a program of strangers: it lives in a frame within a frame (frame.html), and everything that it sends is
// a request that may be refused. Only a person opens its links and sends its messages.

// Args: `page`, with `html`, the `arguments` and the `result` of its call, and `wanted`, the addresses that it would
// like to reach; `setDocument`, which gives the outer frame its document; `host`, with `ask(method, params)`, which
// returns the promise of a response, `say(text)`, called with a message that the person wants to be sent, and `close()`.
// Returns the element to show. The page ends when the element is removed.
function hostedPage(page, setDocument, host) {
  const APPS_VERSION = "2026-01-26";
  const CARRIED = ["tools/call", "resources/read", "notifications/message", "ping"];
  const [MOST_AT_ONCE, MOST_OFFERS, MOST_SHOWN, LONGEST, TALLEST] = [8, 3, 2_000, 1_000_000, 1200];
  const make = (tag, members = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), members);
    element.append(...children);
    return element;
  };
  // Written out, so that a text cannot hide or reverse a part of itself.
  const plain = (text) => text.replace(/(?!\n)[\p{C}\p{Zl}\p{Zp}]/gu, "\ufffd").slice(0, MOST_SHOWN);
  const frame = make("iframe", { title: "Page of a tool", className: "agui-app-frame" });
  frame.setAttribute("sandbox", "allow-scripts");
  frame.setAttribute("referrerpolicy", "no-referrer");
  const offers = make("div", { className: "agui-app-offers" });
  offers.setAttribute("role", "status");
  const close = make("button", { type: "button", className: "agui-button", textContent: "Close the page" });
  const root = make("div", { className: "agui-app" }, frame, offers, close);
  const unreached = page.wanted?.length ? `The page would like to reach ${page.wanted.join(", ")}; no page reaches anything here.` : "";
  if (unreached) root.append(make("div", { className: "agui-line agui-dim", textContent: plain(unreached) }));
  let [waiting, isReady, isShown] = [0, false, false];

  const send = (message) => frame.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, "*");
  // What only a person may do; an older offer gives way to a newer one.
  const offer = (...children) => {
    offers.append(make("div", { className: "agui-line" }, ...children));
    while (offers.children.length > MOST_OFFERS) offers.firstChild.remove();
  };
  const refuse = (message) => { throw Object.assign(new Error(message), { isRefusal: true }); };
  const linkTo = (text) => {
    const url = URL.canParse(text) ? new URL(text) : null;
    return ["http:", "https:"].includes(url?.protocol) ? url.href : refuse("only http and https addresses are opened");
  };
  const textIn = ({ content }) => (Array.isArray(content) ? content : [content])
    .filter((part) => part?.type === "text").map((part) => String(part.text)).join("\n");

  const answers = {
    "ui/initialize": () => ({
      protocolVersion: APPS_VERSION,
      hostInfo: { name: "agui-client", version: "1" },
      hostCapabilities: { openLinks: {}, serverTools: {}, serverResources: {}, logging: {}, message: { text: {} } },
      hostContext: {
        theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
        displayMode: "inline", availableDisplayModes: ["inline"], platform: "web",
      },
    }),
    "ui/open-link": ({ url }) => {
      const href = linkTo(url);
      offer("The page wants to open ", make("a", { href, target: "_blank", rel: "noopener noreferrer", textContent: href }));
      return {};
    },
    "ui/message": (params) => {
      const text = textIn(params);
      if (!host.say || !text) refuse("only messages of text are sent");
      const button = make("button", { type: "button", className: "agui-button", textContent: "Send it" });
      button.addEventListener("click", () => { button.disabled = true; host.say(text); });
      offer(`The page wants to say “${plain(text)}” `, button);
      return {};
    },
    "ui/request-display-mode": () => ({ mode: "inline" }),
  };
  const carried = async (method, params) => {
    if (waiting >= MOST_AT_ONCE) refuse(`the page waits for ${MOST_AT_ONCE} responses already`);
    waiting += 1;
    try {
      return await host.ask(method, params);
    } finally {
      waiting -= 1;
    }
  };
  const answer = async ({ id, method, params = {} }) => {
    try {
      const own = Object.hasOwn(answers, method) ? answers[method] : null;
      if (own === null && !CARRIED.includes(method)) return send({ id, error: { code: -32601, message: `a page may not ask ${method}` } });
      if (own === null && method === "ping") return send({ id, result: {} });
      return send({ id, result: own ? own(params ?? {}) : await carried(method, params ?? {}) });
    } catch (error) {
      return send({ id, error: { code: -32000, message: String(error.message) } });
    }
  };
  const note = (method, params) => {
    if (method === "ui/notifications/sandbox-proxy-ready" && !isShown) {
      isShown = true;
      send({ method: "ui/notifications/sandbox-resource-ready", params: { html: page.html } });
    } else if (method === "ui/notifications/initialized" && !isReady) {
      isReady = true;
      send({ method: "ui/notifications/tool-input", params: { arguments: page.arguments } });
      send({ method: "ui/notifications/tool-result", params: page.result });
    } else if (method === "ui/notifications/size-changed" && Number.isFinite(params?.height)) {
      frame.style.height = `${Math.min(Math.max(params.height, 40), TALLEST)}px`;
    }
  };
  const receive = ({ source, data }) => {
    if (!root.isConnected) return removeEventListener("message", receive);
    if (source !== frame.contentWindow || data?.jsonrpc !== "2.0" || typeof data.method !== "string") return undefined;
    // What cannot be JSON, or is too long, is not a message.
    const text = JSON.stringify(data);
    if (text.length > LONGEST) return undefined;
    const { id, method, params } = JSON.parse(text);
    return id === undefined ? note(method, params) : answer({ id, method, params });
  };
  close.addEventListener("click", () => host.close());
  addEventListener("message", receive);
  setDocument(frame);
  return root;
}
