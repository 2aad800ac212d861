"""What a replay is measured by: how much of what was held it has told, and what that is put together to (see replay).

A held message counts as passed over when one behind it was told: a server need not tell all that a client holds. What
no run ever heard of may stand at the end; that is for whoever knows to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ag_ui.core import ActivityMessage, AssistantMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ag_ui.core import Message, ToolCall


class Progress:
    """How far a replay has come.

    Args:
        messages: What is held when it begins.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self.held: dict[str, Message] = {}
        """What was held, by id."""
        self.places = {message.id: place for place, message in reversed(list(enumerate(messages)))}
        """Where it was held."""
        self.is_past = False
        """Whether it told all that was held, and then something new."""
        self.has_more = False
        """Whether it told something new after the last it told of what was held."""
        self._messages = messages
        self._untouched = set(map(id, messages))
        self._calls: dict[str, tuple[str, ToolCall]] = {}
        self._mentioned: set[object] = set()
        self._roles_told = {"assistant"}
        self._furthest = -1
        self._owed: dict[object, int] = {}
        for message in messages:
            self.held.setdefault(message.id, message)
            self._calls.update((call.id, (message.id, call)) for call in calls_of(message))

    def lacks(self, unheard: Collection[str] = ()) -> bool:
        """Whether it ended in between, with some of what was held not told, or not as far.

        Args:
            unheard: The messages that no run has heard yet.
        """
        return not self.is_past and (bool(self._owed) or self._has_untold(unheard))

    def stopped_short(self, unheard: Collection[str] = ()) -> bool:
        """Whether it came to its end with some of what was held not told.

        Where a thread was changed elsewhere, something else follows; and one that is not told at all was never held.

        Args:
            unheard: The messages that no run has heard yet.
        """
        return not (self.is_past or self.has_more or self._furthest < 0) and self._has_untold(unheard)

    def is_untold(self, message_id: str) -> bool:
        """Whether a message was held and has not been mentioned since."""
        return message_id in self.places and message_id not in self._mentioned

    def as_held(self, message: Message) -> Message | None:
        """What a message was; None if it was not held."""
        return message if id(message) in self._untouched else self.held.get(message.id)

    def mention(self, message_id: str) -> None:
        """A message is told, restated, or part of what a run was asked with."""
        place = self.places.get(message_id)
        if place is None:
            self._mention_new(message_id)
            return
        self._mentioned.add(message_id)
        self._roles_told.add(self._messages[place].role)
        if place > self._furthest:
            self._furthest, self.has_more = place, False

    def mention_call(self, tool_call_id: str, message_id: str) -> None:
        """A tool call is told or restated.

        Args:
            tool_call_id: The call.
            message_id: The message it is told to be part of.
        """
        owner, call = self._calls.get(tool_call_id, (message_id, None))
        self.mention(owner)
        if call is None:
            self._mention_new(("call", tool_call_id))

    def grow(self, item: object, size: int) -> None:
        """So many characters are added to a message, or to a ("call", id)."""
        if self.is_past:
            return
        owed = self._owed.get(item, 0) - size
        if owed > 0:
            self._owed[item] = owed
            return
        self._owed.pop(item, None)
        if owed < 0:
            self._tell_more()

    def told_text(self, message_id: str, text: str) -> None:
        """The text of a message is this now."""
        if (message := self.held.get(message_id)) is not None:
            self._owe(message_id, text_of(message), text)

    def told_arguments(self, tool_call_id: str, arguments: str) -> None:
        """The arguments of a call are this now."""
        if tool_call_id in self._calls:
            self._owe(("call", tool_call_id), self._calls[tool_call_id][1].function.arguments, arguments)

    def _owe(self, item: object, held: str, told: str) -> None:
        if held != told and held.startswith(told):
            self._owed[item] = len(held) - len(told)
        else:
            self._owed.pop(item, None)

    def _mention_new(self, item: object) -> None:
        if item not in self._mentioned:
            self._mentioned.add(item)
            self.has_more = True
            self._tell_more()

    def _tell_more(self) -> None:
        """Prompts that are held may be ones that nobody heard: they are not waited for."""
        if not self.is_past and not self._owed:
            self.is_past = not any(self._is_awaited(each) for each in self._rest if not isinstance(each, UserMessage))

    @property
    def _rest(self) -> Iterator[Message]:
        return (self._messages[place] for place in range(self._furthest + 1, len(self._messages)))

    def _has_untold(self, unheard: Collection[str]) -> bool:
        return any(self._is_awaited(message) for message in self._rest if message.id not in unheard)

    def _is_awaited(self, message: Message) -> bool:
        """A server that tells no reasoning, or no prompts, is not waited for to tell them; activities may be ours."""
        return message.role in self._roles_told and not isinstance(message, ActivityMessage)


def arranged(messages: Sequence[Message], places: Mapping[str, int]) -> list[Message]:
    """Messages in the order of their places; one that has none stays behind the one before it.

    Args:
        messages: The messages.
        places: Their places, by id.
    """
    groups: list[tuple[int, list[Message]]] = [(-1, [])]
    for message in messages:
        if message.id in places:
            groups.append((places[message.id], []))
        groups[-1][1].append(message)
    groups.sort(key=lambda group: group[0])
    return [message for _, group in groups for message in group]


def put_back(held: Message | None, told: Message, restored: set[str]) -> Message:
    """A message as it was held, with what was told further or differently.

    Args:
        held: As it was; None if it was not.
        told: As it is.
        restored: Takes the ids of the message and the calls that are what they were.

    Returns:
        The message.
    """
    if held is None or held.role != told.role:
        return told
    changes: dict[str, Any] = {}
    if not isinstance(told.content, str) or text_of(held).startswith(told.content):
        restored.add(held.id)
    else:
        changes["content"] = told.content
    calls = {call.id: call for call in calls_of(told)}
    kept = [_call_put_back(call, calls.pop(call.id, call), restored) for call in calls_of(held)]
    if (now := [*kept, *calls.values()]) != calls_of(held):
        changes["tool_calls"] = now
    return held.model_copy(update=changes) if changes else held


def _call_put_back(held: ToolCall, told: ToolCall, restored: set[str]) -> ToolCall:
    if not held.function.arguments.startswith(told.function.arguments):
        return told
    restored.add(held.id)
    return held


def text_of(message: Message) -> str:
    """The text of a message; "" for one that has none, or has several parts."""
    return message.content if isinstance(message.content, str) else ""


def calls_of(message: Message) -> Sequence[ToolCall]:
    """The tool calls of a message."""
    return (message.tool_calls or []) if isinstance(message, AssistantMessage) else []
