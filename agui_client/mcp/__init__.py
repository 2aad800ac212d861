"""Tools of MCP servers (extra `mcp`, the official SDK): `tools=[get_weather, mcp_server("http://host/mcp")]`.

A connection belongs to one event loop, and is kept while calls of agents in that loop use it. It lives in a task of its
own, so that a server that goes away fails the calls that are under way and nothing else; the next call connects again.
The modules, from low to high: `_connection`, `_call_results` (what a server's tool returned), `_app_tools` (its
page), `_server_tools`, `_apps` (what pages ask).
"""

try:
    from mcp import StdioServerParameters
except ModuleNotFoundError as _missing:
    raise ImportError("agui_client.mcp needs the MCP SDK: pip install 'agui-client[mcp]'") from _missing

from agui_client.mcp._apps import MCPApps
from agui_client.mcp._server_tools import Elicit, MCPToolset, mcp_server

__all__ = ["Elicit", "MCPApps", "MCPToolset", "StdioServerParameters", "mcp_server"]
