"""The frames in which a page of an MCP server is shown: their document, their policy, and the host's script.

A page is a program of strangers that has read the result of a call. It lives in a frame within a frame: the policy of
the outer one lets no frame in it navigate anywhere, and the inner one inherits it, so that it loads and sends nothing;
both have opaque origins, so that it reads nothing of the page around it. It has no storage either.

To change

- what a page of an MCP server may do: `POLICY` here, and `mcp_apps/frame.html`; `mcp_apps/host.js` responds to it
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'unsafe-inline'",
        "style-src 'unsafe-inline'",
        *(f"{kind}-src data: blob:" for kind in ("img", "media", "font")),
        *(f"{kind} 'none'" for kind in ("connect-src", "frame-src", "worker-src", "base-uri", "form-action")),
    )
)
"""The policy of both frames. Scripts and styles have to be in the page, as pages that are one file have them."""
_PACKAGE = files("agui_client.mcp_apps")


@cache
def frame_document() -> str:
    """Return the document of the outer frame."""
    return _PACKAGE.joinpath("frame.html").read_text("utf-8").replace("{{policy}}", POLICY)


@cache
def host_script() -> str:
    """Return the script of the page around the frames, which defines `hostedPage`."""
    return _PACKAGE.joinpath("host.js").read_text("utf-8")
