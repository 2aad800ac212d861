"""The limits of an app: of bytes that it reads, and of seconds that it waits."""

from __future__ import annotations

from dataclasses import dataclass

from agui_client._core.ground.field_docs import Record
from agui_client._core.transport.timeouts import check_number, check_seconds
from agui_client._serving.stopping import STOP_WITHIN


@dataclass(frozen=True, slots=True)
class AppLimits(Record):
    """Limits of a served agent: `agent_app(agent, limits=AppLimits(max_body_bytes=32 * 1024 * 1024))`.

    Raises:
        UsageError: A limit is not a number of bytes or seconds.
    """

    max_body_bytes: int = 4 * 1024 * 1024
    """The largest request body that is accepted, in bytes."""
    body_timeout: float | None = 20.0
    """The seconds that a request body may take to arrive; None for no limit."""
    keep_alive: float = 15.0
    """The seconds of silence after which a comment is sent, so that no proxy closes the connection."""
    stop_within: float = STOP_WITHIN
    """The seconds within which the runs are ended one after the other when the server stops, those that began last
    first; runs that are over before their turn are not cut. Functions of tools that are at work may end within that
    time. Callers have five seconds more to read the end, so the server needs this and some seconds more before it is
    killed. Runs of a store end at once, and their functions within this time."""

    def __post_init__(self) -> None:
        check_number("max_body_bytes=", self.max_body_bytes, least=1, is_whole=True)
        check_seconds("body_timeout=", self.body_timeout, may_be_none=True)
        check_seconds("keep_alive=", self.keep_alive)
        check_seconds("stop_within=", self.stop_within)
