"""MCP Apps: pages that MCP servers have for their tools, as agents send them, without the MCP SDK (SEP-1865).

An agent, or a server in front of it, sends an `mcp-apps` activity for a call whose tool has a page: the result, the
address of the page and the arguments. `apps_in` reads them, `App.page` and `App.request` ask for the page and for what
it asks; nothing of a page is run here. `agui_client.mcp`
makes these activities of calls to servers of its own, and responds to the requests.
"""

from agui_client.mcp_apps._app import App, AppPage, apps_in

__all__ = ["App", "AppPage", "apps_in"]
