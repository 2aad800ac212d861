// Shows a page of an MCP server below a cell, behind mcp_apps/host.js: the kernel asks its server what the page asks.

function render({ model, el }) {
  const { style, rules, classes, page, frame } = model.get("shown");
  const sheet = document.createElement("style"), root = document.createElement("div");
  sheet.textContent = style + rules;
  root.className = classes;
  keep_keys(root);
  const waiting = new Map();
  const host = {
    ask: (method, params) => new Promise((answered, refused) => {
      const id = crypto.randomUUID();
      waiting.set(id, { answered, refused });
      model.send({ id, method, params });
    }),
    say: (text) => model.send({ say: text }),
    close: () => model.send({ close: true }),
  };
  const receive = ({ id, result, error }) => {
    const { answered, refused } = waiting.get(id) ?? {};
    waiting.delete(id);
    if (error !== undefined) refused?.(new Error(error));
    else answered?.(result);
  };
  model.on("msg:custom", receive);
  root.append(hostedPage(page, (outer) => { outer.srcdoc = frame; }, host));
  el.append(sheet, root);
  return () => model.off("msg:custom", receive);
}

export default { render };
