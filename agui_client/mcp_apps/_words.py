"""The names of MCP Apps on the wire: in activities, in requests for a server, and in MCP itself."""

from __future__ import annotations

ACTIVITY_TYPE = "mcp-apps"
"""The type of the activity of a call whose tool has a page."""
PROXIED_REQUEST = "__proxiedMCPRequest"
"""The member of `forwarded_props` with a request for an MCP server."""
CAPABILITY = "io.modelcontextprotocol/ui"
"""The name of the extension among the capabilities of an MCP client."""
PAGE_TYPE = "text/html;profile=mcp-app"
"""The media type of a page."""
PAGE_SCHEME = "ui://"
"""The beginning of the addresses of pages; nothing else is read for an app."""
CALL, READ, LOG, PING = "tools/call", "resources/read", "notifications/message", "ping"
"""The methods that are carried to a server."""
