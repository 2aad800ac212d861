"""The messages with which a thread begins, as long as no event is about one of them.

A stored thread is restored for each of its turns, and a turn is nearly always about what is new in it: so its messages
have no slots (`message_index`) at first. They are found by tables of places, which the thread's log keeps from turn to
turn: each turn reads into them what came since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from ag_ui import core
from ag_ui.core import Message, ToolCall, ToolMessage

_WITHOUT_CALLS = {
    *(core.ActivityMessage, core.DeveloperMessage, core.ReasoningMessage, core.SystemMessage, core.UserMessage)
}
"""The types of the messages that neither make tool calls nor have their results."""


class _Places:
    """The places of messages in a thread that grows, which all its lists of messages share.

    Each list reads on from where the last one stopped, and what lies behind its own end is not there for it. What is
    read twice, as by two threads of execution, changes nothing.
    """

    def __init__(self) -> None:
        self.length = 0
        """The number of messages of the longest list."""
        self.by_id = dict[str, int]()
        """The places of the messages by their ids; of several with one id, the first."""
        self.results = dict[str, int]()
        """The places of the results by the ids of their calls; of several, the first."""
        self.calls = dict[str, tuple[int, int]]()
        """The places of the messages that make the calls, and of the calls in them; of several with one id, the first.
        """
        self.first_namesake = inf
        """The place of the first message with a call whose id an earlier one has."""
        self.has_reconciled = False
        self._open = dict[str, None]()
        self._ids_read = self._calls_read = 0

    def read_ids(self, messages: Sequence[Message]) -> dict[str, int]:
        """Return the places by id, of these messages at least."""
        if (start := self._ids_read) < (end := len(messages)):
            new = {each.id: at for at, each in zip(range(end - 1, start - 1, -1), reversed(messages), strict=False)}
            for message_id in new.keys() & self.by_id.keys() if start else ():
                del new[message_id]
            self.by_id.update(new)
            self._ids_read = end
        return self.by_id

    def read_calls(self, messages: Sequence[Message]) -> None:
        """Read the calls and results of these messages at least."""
        if (start := self._calls_read) == (end := len(messages)) or end < start:
            return
        # By type, as a look at a member of thousands of messages takes four times as long.
        about_calls = [
            (at, each)
            for at, each in enumerate(messages[start:] if start else messages, start)
            if type(each) not in _WITHOUT_CALLS
        ]
        for at, message in about_calls:
            if message.role == "tool":
                self.results.setdefault(message.tool_call_id, at)
                self._open.pop(message.tool_call_id, None)
            elif message.role == "assistant" and message.tool_calls:
                for position, call in enumerate(message.tool_calls):
                    if self.calls.setdefault(call.id, (at, position)) != (at, position):
                        self.first_namesake = min(self.first_namesake, at)
                    if call.id not in self.results:
                        self._open[call.id] = None
        self._calls_read = end

    def is_answered(self, count: int) -> bool:
        """Return whether each call of the first messages has a result among them."""
        if count == self._calls_read:
            return not self._open
        return all(self.results.get(key, inf) < count for key, (at, _) in [*self.calls.items()] if at < count)


class BegunMessages(list[Message]):
    """The messages with which a thread begins, to be read as they are: they, and the ids in them, are not changed.

    Args:
        messages: The messages, in the order of the thread.
    """

    def __init__(self, messages: Iterable[Message] = (), *, places: _Places | None = None) -> None:
        super().__init__(messages)
        self._places = _Places() if places is None else places
        self._places.length = len(self)

    def grown(self, messages: Sequence[Message]) -> BegunMessages:
        """Return the messages of a longer thread, which is found by the same tables.

        Args:
            messages: The messages with which it begins. As many as there are here have the ids that these have.
        """
        # Of two threads that grew from this one, the second one has tables of its own.
        return BegunMessages(messages, places=self._places if self._places.length == len(self) else None)

    def find(self, message_id: str) -> Message | None:
        """Return a message, of several with one id the first; None if there is none."""
        return self._at(self._places.read_ids(self).get(message_id))

    def find_call(self, tool_call_id: str) -> tuple[Message, ToolCall] | None:
        """Return a call with its message; None if there is none with this id."""
        at, position = self._read_calls().calls.get(tool_call_id, (None, 0))
        message = self._at(at)
        calls = message.tool_calls if message is not None and message.role == "assistant" else None
        return None if message is None or not calls else (message, calls[position])

    def find_result(self, tool_call_id: str) -> ToolMessage | None:
        """Return the result of a call, of several the first; None if there is none."""
        message = self._at(self._read_calls().results.get(tool_call_id))
        return message if message is not None and message.role == "tool" else None

    def _at(self, place: int | None) -> Message | None:
        return self[place] if place is not None and place < len(self) else None

    @property
    def has_reconciled(self) -> bool:
        """Whether the settled records of the calls of this thread, or of the thread from which it grew, follow it."""
        return self._places.has_reconciled

    def note_reconciled(self, *, has_reconciled: bool) -> None:
        """Note whether the settled records of the calls follow this thread, for those that grow from it, too."""
        self._places.has_reconciled = has_reconciled

    @property
    def has_namesakes(self) -> bool:
        """Whether several calls have one id: then their order says which one is found, and which have a result."""
        return self._read_calls().first_namesake < len(self)

    @property
    def is_answered(self) -> bool:
        """Whether each call has a result."""
        return self._read_calls().is_answered(len(self))

    def may_have(self, message_ids: Iterable[str]) -> bool:
        """Return whether one of some messages may be here; if not, none is."""
        return not self._places.read_ids(self).keys().isdisjoint(message_ids)

    def may_have_calls(self, tool_call_ids: Iterable[str]) -> bool:
        """Return whether one of some calls may be here; if not, none is."""
        return not self._read_calls().calls.keys().isdisjoint(tool_call_ids)

    def is_about(self, message: Message) -> bool:
        """Return whether another message has the id of one of these, or a call that these know."""
        if self.may_have((message.id,)):
            return True
        calls = (message.tool_calls or ()) if message.role == "assistant" else ()
        call_ids = [message.tool_call_id] if message.role == "tool" else [each.id for each in calls]
        return self.may_have_calls(call_ids) or not self._places.results.keys().isdisjoint(call_ids)

    def _read_calls(self) -> _Places:
        self._places.read_calls(self)
        return self._places
