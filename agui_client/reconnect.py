"""Reconnecting: policies that take up a stream that was cut, without starting the run again.

    HttpAgent(url, reconnect=LastEventId())

A run is posted once; a policy names the request that continues it. `stop_run` is for callers who leave a run that
its server would continue.
"""

from agui_client._core.agent.reconnect import Connect, DetachedRuns, LastEventId, ReconnectPolicy, stop_run

__all__ = ["Connect", "DetachedRuns", "LastEventId", "ReconnectPolicy", "stop_run"]
