"""Policies that take up a stream that was cut: `HttpAgent(url, reconnect=LastEventId())`."""

from agui_client._core.agent.reconnect import Connect, DetachedRuns, LastEventId, ReconnectPolicy, stop_run

__all__ = ["Connect", "DetachedRuns", "LastEventId", "ReconnectPolicy", "stop_run"]
