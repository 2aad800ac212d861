"""The journals of teams whose threads are not stored: an app keeps them in its memory, and no caller gets them (SEC-3).

A journal says what members were asked, what they have begun, and which answers they have: a caller who could write it
would have any tool called. So a caller gets its state without one, and what it sends under that name counts for
nothing. The journal of a stored thread is in the thread.

The memory is bounded for each owner, and in all. A journal that does not fit takes the place of older ones of its own
owner, and of nobody else's: where owners are not known, it is not kept, and its questions cannot be answered.

To change

- how long and how much an app keeps of teams: `TeamJournals` here; `_answering` in `_serving/answering.py` looks for
  the journal of an input, and `caller_events` in `_core/verbs/caller_run.py` keeps it, and leaves it out of events
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui.core import StateDeltaEvent, StateSnapshotEvent
from pydantic_core import from_json, to_json

from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.open_items import quoted
from agui_client._core.run.subagents import JOURNAL, has_journal, with_journal, without_journal
from agui_client.errors import RequestExpiredError, UsageError

if TYPE_CHECKING:
    from ag_ui.core import Event, Message, ToolCall

Scope: TypeAlias = tuple[str, ...]
"""The app, the path, the agent, the owner and the thread that a journal is for; the owner is the last but one."""

_SECONDS = 3600.0
_MOST_OF_OWNER, _MOST_OF_ALL = 16_000_000, 256_000_000
"""The bytes of the journals of one owner, and of all."""
_OVERHEAD = 500
"""The bytes of a journal of nothing."""
_BETWEEN_WARNINGS = 60.0
_NOT_KEPT = (
    "this server keeps nothing of the team's run that asked: it was too long ago, or in another process or before a "
    "restart; begin again with a new prompt. agent_app(store=Store(URL)) keeps what teams ask"
)
_FULL = (
    "the memory for what teams ask is full: the questions of thread %s cannot be answered; agent_app(store=Store(URL)) "
    "keeps them, and with owner_of= each owner has a part of the memory"
)
_logger = logging.getLogger("agui_client.asgi")


@dataclass(frozen=True, slots=True)
class TeamJournal:
    """The journal of one thread, with the calls that its members had left open."""

    written: bytes
    """The journal and the digests of the calls without a result, as JSON, which later runs cannot change."""
    kept_at: float
    """The time when it was kept, on the clock of the process."""

    @property
    def size(self) -> int:
        """The bytes that it takes, about."""
        return len(self.written) + _OVERHEAD


class TeamJournals:
    """The journals that an app has in memory; of any thread.

    Args:
        seconds: The seconds for which a journal is kept.
        most_of_owner: The bytes of the journals of one owner.
        most_of_all: The bytes of all journals.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        seconds: float = _SECONDS,
        most_of_owner: int = _MOST_OF_OWNER,
        most_of_all: int = _MOST_OF_ALL,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._seconds, self._most_of_owner, self._most_of_all, self._clock = seconds, most_of_owner, most_of_all, clock
        # By owner, those that were kept first at the beginning; sync frameworks run several runs in threads.
        self._kept: dict[str, dict[Scope, TeamJournal]] = {}
        self._sizes: dict[str, int] = {}
        self._size_of_all = 0
        self._lock = Lock()
        self._warned_at = -_BETWEEN_WARNINGS

    def find(self, scope: Scope) -> TeamJournal | None:
        """Return the journal of a thread; None if none is kept."""
        with self._lock:
            found = self._kept.get(scope[-2], {}).get(scope)
            return None if found is None or self._is_old(found) else found

    def keep(self, scope: Scope, state: Any, messages: Iterable[Message]) -> None:
        """Keep the journal that a run leaves in its state, in the place of the one before; none if it has finished.

        Args:
            scope: The thread.
            state: The state that the run leaves.
            messages: The conversation that it leaves.
        """
        owner = scope[-2]
        with self._lock:
            self._drop(owner, scope)
            if not has_journal(state):
                return
            kept = TeamJournal(to_json([state[JOURNAL], open_calls(messages)]), self._clock())
            if self._has_space(owner, kept.size):
                self._kept.setdefault(owner, {})[scope] = kept
                self._sizes[owner] = self._sizes.get(owner, 0) + kept.size
                self._size_of_all += kept.size
                return
        self._warn(scope[-1])

    def _has_space(self, owner: str, size: int) -> bool:
        """Make space for a journal; return whether there is enough now."""
        if not self._fits(owner, size):
            for each in [*self._kept]:
                self._drop_first(each, self._is_old)
        if owner:
            self._drop_first(owner, lambda _: not self._fits(owner, size))
        return self._fits(owner, size)

    def _fits(self, owner: str, size: int) -> bool:
        # Without owners all journals are of one, which may have all the space.
        most = self._most_of_owner if owner else self._most_of_all
        return self._sizes.get(owner, 0) + size <= most and self._size_of_all + size <= self._most_of_all

    def _drop_first(self, owner: str, is_dropped: Callable[[TeamJournal], bool]) -> None:
        """Remove the oldest journals of an owner, as long as a function says so."""
        while (first := next(iter(self._kept.get(owner, {}).items()), None)) is not None and is_dropped(first[1]):
            self._drop(owner, first[0])

    def _drop(self, owner: str, scope: Scope) -> None:
        kept = self._kept.get(owner, {})
        if (dropped := kept.pop(scope, None)) is not None:
            self._sizes[owner] -= dropped.size
            self._size_of_all -= dropped.size
            if not kept:
                del self._kept[owner], self._sizes[owner]

    def _is_old(self, journal: TeamJournal) -> bool:
        return self._clock() - journal.kept_at > self._seconds

    def _warn(self, thread_id: str) -> None:
        if (now := self._clock()) - self._warned_at >= _BETWEEN_WARNINGS:
            self._warned_at = now
            _logger.warning(_FULL, quoted(thread_id))


@dataclass(frozen=True, slots=True)
class JournalPlace:
    """The place of the journal of one thread in an app's memory."""

    journals: TeamJournals
    """The memory."""
    scope: Scope
    """The thread."""

    def opened(self, state: Any, messages: Iterable[Message], *, is_needed: bool) -> Any:
        """Return the state of an input with the journal of its thread.

        Args:
            state: The state, without one.
            messages: The messages of the input.
            is_needed: Whether the input can be served with a journal only.

        Raises:
            RequestExpiredError: None is kept, and one is needed.
            UsageError: A call that waits is another one in the messages.
        """
        kept = self.journals.find(self.scope)
        if kept is None:
            if is_needed:
                raise RequestExpiredError(_NOT_KEPT)
            return state
        journal, calls = from_json(kept.written)
        return state_with(journal, calls, state, messages)

    def keep(self, state: Any, messages: Iterable[Message]) -> None:
        """Keep the journal that a run leaves in its state."""
        self.journals.keep(self.scope, state, messages)


def state_with(journal: Mapping[str, Any], calls: Mapping[str, str], state: Any, messages: Iterable[Message]) -> Any:
    """Return a caller's state with a journal, if the calls that wait are those of its messages.

    Args:
        calls: The digests of the calls that had no result when it was kept.
        state: The caller's state.
        messages: The caller's messages.

    Raises:
        UsageError: One of the calls is another one in the messages.
    """
    sent = {call.id: _digest(call, message.id) for message, call in tool_calls_in(messages)}
    for tool_call_id, digest in calls.items():
        if sent.get(tool_call_id, digest) != digest:
            raise UsageError(f"tool call {quoted(tool_call_id)} is not the one that was made: send it as it came")
    return with_journal({} if state is None else state, journal)


def open_calls(messages: Iterable[Message]) -> dict[str, str]:
    """Return the digests of the calls that have no result behind them, by their ids; later calls may have the same."""
    found: dict[str, tuple[ToolCall, str]] = {}
    for message in messages:
        if message.role == "tool":
            found.pop(message.tool_call_id, None)
        found |= {call.id: (call, each.id) for each, call in tool_calls_in([message])}
    return {key: _digest(*each) for key, each in found.items()}


def _digest(call: ToolCall, message_id: str) -> str:
    """Return a short text that changes with the name, the arguments and the member of a tool call.

    The message itself may have another id: clients do not agree about those of messages that have none (TOOL-3).
    """
    # The JSON of some frameworks has half characters, which this one escapes.
    made = json.dumps([call.function.name, call.function.arguments, message_id.rpartition("/")[0]])
    return hashlib.sha256(made.encode()).hexdigest()[:32]


class WithoutJournal:
    """Takes the journal of a team out of the events of a run, for its caller.

    Args:
        state: The state that the run begins with.
    """

    def __init__(self, state: Any) -> None:
        self._had_journal = has_journal(state)

    def shown(self, event: Event, state: Any) -> Event | None:
        """Return an event as the caller gets it; None if it is about the journal alone.

        Args:
            event: The event, which changes the state.
            state: The state after it.
        """
        had_journal, self._had_journal = self._had_journal, has_journal(state)
        if not (had_journal or self._had_journal):
            return event
        if isinstance(event, StateSnapshotEvent):
            return event.model_copy(update={"snapshot": without_journal(state)})
        if not isinstance(event, StateDeltaEvent) or not event.delta:
            return event
        kept = [each for each in event.delta if not _is_of_journal(each.path)]
        if any(each.path == "" or _is_of_journal(getattr(each, "from_", None) or "") for each in kept):
            return StateSnapshotEvent(
                snapshot=without_journal(state), subagent_run_id=event.subagent_run_id, metadata=event.metadata
            )
        return event.model_copy(update={"delta": kept}) if kept else None


def _is_of_journal(path: str) -> bool:
    return path == f"/{JOURNAL}" or path.startswith(f"/{JOURNAL}/")
