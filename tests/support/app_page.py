"""A page of an MCP server that is written with the official `App` class."""

from __future__ import annotations

import re

from support.typescript import installed

_PAGE = """<!doctype html><meta charset="utf-8"><title>board</title>
<body><p id="said">waiting</p>
<button id="move">Move a stone</button> <button id="wipe">Wipe</button> <button id="read">Read another</button>
<button id="link">Open the rules</button> <button id="write">Write</button>
<script type="module">
%s
const said = document.getElementById("said");
const app = new App({ name: "board", version: "1" }, {});
let given = null;
app.ontoolinput = ({ arguments: each }) => { given = each; };
const say = (text) => { said.textContent = text; };
app.ontoolresult = ({ structuredContent: { stones } }) => say(`${stones} stones in ${given.place}`);
await app.connect();
const does = {
  move: () => app.callServerTool({ name: "move", arguments: { stone: 2 } }).then(({ content }) => content[0].text),
  wipe: () => app.callServerTool({ name: "wipe", arguments: {} }).then(() => "wiped after all"),
  read: () => app.readServerResource({ uri: "ui://board/other" }).then(({ contents }) => `read ${contents.length}`),
  link: () => app.openLink({ url: "https://stones.example/rules" }).then(() => "offered"),
  write: () => app.sendMessage({ role: "user", content: [{ type: "text", text: "Clear it." }] }).then(() => "written"),
};
for (const [id, act] of Object.entries(does)) {
  document.getElementById(id).onclick = () => act().then(say, (error) => say(`refused: ${error.message}`));
}
</script>
"""


def app_page() -> str:
    """Return the page; skips the test where the class cannot be installed."""
    folder = installed(("@modelcontextprotocol/ext-apps", "2.0.4"))
    place = folder / "node_modules" / "@modelcontextprotocol" / "ext-apps" / "dist" / "src" / "app-with-deps.js"
    code, _, names = place.read_text("utf-8").rpartition("export{")
    [own_name] = re.findall(r"([\w$]+) as App[,}]", names)
    return _PAGE % f"{code}\nconst App = {own_name};".replace("</script", "<\\/script")
