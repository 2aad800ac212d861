"""Replay: a thread that a server sends again is reduced beside the local one (LIFE-13, LIFE-14, STATE-1).

For each message the one that says more is shown, and each activity as the server shows it last. Nothing local changes
before the replay came to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ag_ui import core
from ag_ui.core import Event, Message, RunAgentInput, ToolCall
from pydantic_core import to_json

from agui_client._core.protocol.placeholders import is_placeholder, restated
from agui_client._core.protocol.reduce import REDUCTIONS, Change, Reducer
from agui_client._core.protocol.warnings import WarningLog


class ReplayReducer(Reducer):
    """Reduces a replayed thread and shows it merged with the local one.

    Args:
        local: The messages and state before the replay.
        warnings: The log of the replay.
    """

    __slots__ = ("_by_id", "_has_state", "_is_larger", "_local", "_merged")

    def __init__(self, local: Reducer, warnings: WarningLog) -> None:
        super().__init__((), {}, warnings=warnings)
        self._local = local
        # Without a state that was sent, patches build one from the empty one (STATE-1).
        self._has_state = False
        # None until it is measured after a patch.
        self._is_larger: bool | None = False
        self._merged: list[Message] | None = None
        self._by_id: dict[str, Message] | None = None

    def reductions(self) -> tuple[Mapping[type[Any], Callable[[Any, Any], Change]], object]:
        """Return the function that takes in events of each type, and its first argument."""
        return _FEEDS, self

    def feed(self, event: Event) -> Change:
        """Take in one event of the replay."""
        if isinstance(event, core.RunStartedEvent):
            self._begin_run(event.input)
        elif isinstance(event, core.StateSnapshotEvent):
            self._has_state = True
        change = super().feed(event)
        if change & Change.MESSAGES:
            self._merged = None
        if change & Change.STATE:
            self._is_larger = None
        return change

    @property
    def messages(self) -> list[Message]:
        """The merged messages, as a new list."""
        if self._merged is None:
            self._merged, self._by_id = _merge(self._local.messages, super().messages), None
        return list(self._merged)

    @property
    def answered_call_ids(self) -> Collection[str]:
        """The ids of the tool calls that have a result, replayed or local."""
        return {*self._local.answered_call_ids, *super().answered_call_ids}

    @property
    def state(self) -> Any:
        """The replayed state; if the replay sent none, the one that its patches build or the local one, the larger."""
        if self._has_state:
            return super().state
        if self._is_larger is None:
            self._is_larger = len(to_json(super().state)) >= len(to_json(self._local.state))
        return super().state if self._is_larger else self._local.state

    def lacks(self, message_ids: Collection[str]) -> list[str]:
        """Return those of some messages that are in the local thread and not in the replayed one."""
        replayed = {message.id for message in super().messages}
        return [each.id for each in self._local.messages if each.id in message_ids and each.id not in replayed]

    @property
    def is_behind(self) -> bool:
        """Whether the local thread continues the replayed one, apart from messages that a server need not know."""
        replayed, local = {message.id for message in super().messages}, self._local.messages
        theirs = [message.id for message in local if message.role not in ("activity", "reasoning", "user")]
        is_known = replayed <= {message.id for message in local} and not replayed.isdisjoint(theirs)
        return is_known and theirs[-1] not in replayed

    def look(self) -> Sequence[Message]:
        """Return the merged messages as they are now."""
        return self.messages

    def message(self, message_id: str) -> Message | None:
        """Return one of the merged messages; None when there is none with this id."""
        messages = self.messages
        if self._by_id is None:
            # Of several messages with one id, the first.
            self._by_id = {each.id: each for each in reversed(messages)}
        return self._by_id.get(message_id)

    def tool_call(self, tool_call_id: str) -> ToolCall | None:
        """Return one of the merged tool calls; None when there is none with this id."""
        replayed, local = super().tool_call(tool_call_id), self._local.tool_call(tool_call_id)
        return max((call for call in (replayed, local) if call is not None), key=_call_size, default=None)

    def tool_calls(self, tool_call_ids: Iterable[str]) -> list[ToolCall | None]:
        """Return merged tool calls by their ids, with None for those that are not there."""
        return list(map(self.tool_call, tool_call_ids))

    def first_text(self, message_ids: Iterable[str]) -> str:
        """Return the first text that is not empty of merged messages by their ids; "" when there is none."""
        return next((text for each in message_ids if (text := self.text_of(each))), "")

    def place_of_call(self, tool_call_id: str) -> tuple[Message, int] | None:
        """Return the message of the latest call of an id, and its number among those; None when there is none."""
        return super().place_of_call(tool_call_id) or self._local.place_of_call(tool_call_id)

    def set_messages(self, messages: Iterable[Message]) -> None:
        """Replace the local messages."""
        self._local.set_messages(messages)
        self._merged = None

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Append messages to the local ones."""
        self._local.add_messages(messages)
        self._merged = None

    def set_state(self, state: Any) -> None:
        """Replace the state, the replayed one as well."""
        self._local.set_state(state)
        self._replace_state(state)

    def _begin_run(self, run_input: RunAgentInput | None) -> None:
        """Take the state that a replayed run was sent; without one it continued from the run before it (STATE-1)."""
        if run_input is not None and (run_input.state is not None or not self._has_state):
            self._replace_state({} if run_input.state is None else run_input.state)

    def _replace_state(self, state: Any) -> None:
        super().set_state(state)
        self._has_state = True


_FEEDS = dict.fromkeys(REDUCTIONS, ReplayReducer.feed)


def _merge(local: Sequence[Message], replayed: Sequence[Message]) -> list[Message]:
    """Return the messages of both in replayed order; one that is only local stays behind the one before it."""
    sent_again = {message.id: message for message in replayed}
    followers: dict[str | None, list[Message]] = {}
    larger: dict[str, Message] = {}
    before: str | None = None
    for message in local:
        if message.id in sent_again:
            before = message.id
            stated = sent_again[before]
            if stated.role == "tool":
                stated = restated(message, stated)
            # An activity is shown as it is now, as a state is: it does not grow. Of equal ones the replayed one.
            if stated.role != "activity":
                larger[before] = max(stated, message, key=_size)
        else:
            followers.setdefault(before, []).append(message)
    merged = list(followers.get(None, ()))
    for message_id, message in sent_again.items():
        merged.append(larger.get(message_id, message))
        merged += followers.get(message_id, ())
    return merged


def _size(message: Message) -> int:
    """Return how much a message says, in characters of its text and its calls; a placeholder says nothing."""
    if message.role == "tool" and is_placeholder(message):
        return 0
    calls = (message.tool_calls or ()) if isinstance(message, core.AssistantMessage) else ()
    content = message.content
    text = len(content) if isinstance(content, str) else len(to_json(content)) if content else 0
    return text + sum(map(_call_size, calls))


def _call_size(call: ToolCall) -> int:
    return len(call.function.arguments) + 1
