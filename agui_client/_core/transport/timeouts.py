"""Time-outs: the limits of each wait of a run.

To change

- a time-out of requests that are sent: `Timeouts` here, the wait in `_core/transport/clock.py`, its class in
  `errors.py`; of agents in this process `Limits` in `_core/transport/source.py`; `_core/run/time_limit.py` is about the
  time of a call outside of its requests
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeGuard

from agui_client._core.ground.field_docs import Record
from agui_client.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts(Record):
    """The longest waits of a run, in seconds; None waits for ever.

    `first_event`, `idle` and `total` also limit an agent in this process, the others only requests. An agent in this
    process may work on after the last event of its run.

    The defaults are made for agents: short for a server that is not there, and long for one that works, because a run
    that is given up has cost its money all the same, and is never posted again by itself.
    """

    connect: float | None = 10.0
    """The time to make the connection, TLS included. Nothing was sent yet, so trying again costs nothing."""
    first_event: float | None = 120.0
    """The time from the request to the first event. Well-behaved agents send RUN_STARTED at once; the two minutes are
    for servers that start from cold, queue, or send their first bytes with the model's."""
    idle: float | None = 300.0
    """The time between two reads of the stream; comments count. Agents think and call slow tools for minutes without
    sending anything; five minutes are longer than most proxies keep a silent connection, so a stream that is silent for
    longer has broken on the way."""
    after_end: float | None = 5.0
    """The time that a response may stay open after the last event of its run, before the connection is closed with a
    warning; comments do not extend it. Further runs and a late RUN_ERROR have this time to begin."""
    total: float | None = None
    """The time for the whole call: runs, retries, tools, and people who are asked. It is not limited, as a run may take
    hours, and stopping it would throw away paid work. Set it where a person waits."""
    write: float | None = 60.0
    """The time to send a piece of the request; a conversation with pictures is large, and uplinks are slow."""
    pool: float | None = 60.0
    """The time until a connection of a shared client is free. Runs keep theirs for long: a client for many runs at once
    needs a larger pool, rather than a longer wait."""

    def __post_init__(self) -> None:
        for each in fields(self):
            check_seconds(f"Timeouts.{each.name}", getattr(self, each.name), may_be_none=True)

    @classmethod
    def of(cls, value: object) -> Timeouts:
        """Read the `timeout=` option.

        Args:
            value: Seconds for everything but the total, a `Timeouts`, or None for the defaults. `after_end` stays at
                its default if that is less.

        Returns:
            The time-outs that the value means.

        Raises:
            UsageError: It is neither.
        """
        if value is None:
            return cls()
        if isinstance(value, Timeouts):
            return value
        if not is_duration(value):
            raise UsageError(f"a timeout is a number of seconds above zero, or Timeouts(...), not {value!r}")
        after_end = min(value, cls().after_end or value)
        return cls(connect=value, first_event=value, idle=value, after_end=after_end, write=value, pool=value)


def check_seconds(option: str, seconds: object, *, may_be_none: bool = False) -> None:
    """Check a time that a caller gave.

    Args:
        option: The name of the option, for the error.
        seconds: The value.
        may_be_none: Whether None is accepted, which means no limit.

    Raises:
        UsageError: It is not a number above zero.
    """
    if not (is_duration(seconds) or (may_be_none and seconds is None)):
        meaning = "a number of seconds above zero" + (", or None" if may_be_none else "")
        raise UsageError(f"{option} is {meaning}, not {seconds!r}")


def check_number(
    name: str, value: object, *, least: float, is_whole: bool = False, is_above: bool = False, may_be_none: bool = False
) -> None:
    """Check a number that a caller gave.

    Raises:
        UsageError: It is no such number, or too small.
    """
    if value is None and may_be_none:
        return
    kinds = int if is_whole else int | float
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if not (is_number and (value > least if is_above else value >= least)):  # type: ignore[operator]
        wanted = f"a {'whole ' if is_whole else ''}number {'above' if is_above else 'from'} {least:g}"
        wanted += ("" if is_above else " up") + (", or None" if may_be_none else "")
        raise UsageError(f"{name} is {wanted}, not {value!r}")


def is_duration(value: object) -> TypeGuard[float]:
    """Return whether a value is a number of seconds above zero, which clocks can count with."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return float(value) > 0
    except OverflowError:
        return False


UNLIMITED = Timeouts(connect=None, first_event=None, idle=None, after_end=None, write=None, pool=None)
"""Time-outs that never pass."""
