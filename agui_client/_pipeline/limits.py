"""Time-outs: how long a run waits for what."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeGuard

from agui_client.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long to wait for what, in seconds; None waits for ever.

    The defaults are made for agents: they give up at once on a server that is not there, and late on one that works,
    because a run that is given up has cost its money all the same, and is never posted again by itself.
    """

    connect: float | None = 10.0
    """For the connection to be made, TLS included. Nothing was sent yet, so trying again costs nothing."""
    first_event: float | None = 120.0
    """From the request until the first event. Well-behaved agents say RUN_STARTED at once; the two minutes are for
    servers that start from cold, queue, or send their first bytes with the model's."""
    idle: float | None = 300.0
    """Between two reads of the stream; comments count as life. Agents think and call slow tools for minutes without a
    word; five are longer than most proxies keep a silent connection, so what is silent for longer has died on the way.
    """
    total: float | None = None
    """For the whole run, retries included; not limited, as a run may rightly take hours, and stopping it would throw
    away paid work. Set it where somebody waits."""
    write: float | None = 60.0
    """For a piece of the request to be accepted; a conversation with pictures in it is large, and uplinks are slow."""
    pool: float | None = 60.0
    """For a connection of a shared client to become free. Runs keep theirs for long: a client for many runs at once
    wants a larger pool, rather than a longer wait."""

    def __post_init__(self) -> None:
        for each in fields(self):
            seconds: object = getattr(self, each.name)
            if seconds is not None and not _is_duration(seconds):
                raise UsageError(f"Timeouts.{each.name} is a number of seconds above zero, or None, not {seconds!r}")

    @classmethod
    def of(cls, value: object) -> Timeouts:
        """Read the `timeout=` option.

        Args:
            value: Seconds for everything but the total, a `Timeouts`, or None for the defaults.

        Returns:
            The time-outs meant.

        Raises:
            UsageError: It is neither.
        """
        if value is None:
            return cls()
        if isinstance(value, Timeouts):
            return value
        if not _is_duration(value):
            raise UsageError(f"a timeout is a number of seconds above zero, or Timeouts(...), not {value!r}")
        return cls(connect=value, first_event=value, idle=value, write=value, pool=value)


def _is_duration(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
