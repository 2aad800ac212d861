"""The scope of a member's ids: they change on the way up, and back on the way down.

Every id that a member makes goes up with a prefix that no other member has, so that ids cannot clash (LIFE-15, SUB-6).
The prefix says whose it is, so that nothing has to be remembered between two runs, processes or servers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

from ag_ui.core import AssistantMessage, Interrupt, Message, StateDeltaEvent, TextMessageContentEvent, ToolMessage
from pydantic import BaseModel

from agui_client._core.ground.json_pointers import pointer

if TYPE_CHECKING:
    from agui_client._core.tools.context import ToolExecution

_INVOCATION = re.compile(r"(?P<key>[\w-]+)-(?P<flow>[0-9a-f]{8})\.(?P<number>[0-9]{1,9})")
_SAID = re.compile(r"said-[0-9a-f]{8}\.[0-9]+")
_LONGEST_KEY = 40
_MARK = re.compile(r"~[0-9]+$")
"""The end of an id that another call of the member has given to something else in the same run."""

ModelT = TypeVar("ModelT", bound=BaseModel)


def key_of(name: str) -> str:
    """Return a member's name in the characters that ids are made of; another name gives another key."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_KEY]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def flow_of(run_id: str) -> str:
    """Return the mark that all invocations of one flow share: a flow begins with a run, and later runs resume it."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:8]


def invocation_id(key: str, flow: str, number: int) -> str:
    """Return the `subagentRunId` of an invocation of a member."""
    return f"{key}-{flow}.{number}"


def split_invocation(invocation: str) -> tuple[str, str, int] | None:
    """Return the key of the member, the mark of the flow and the number of an invocation; None if it is none."""
    found = _INVOCATION.fullmatch(invocation)
    return None if found is None else (found["key"], found["flow"], int(found["number"]))


def split_interrupt_id(interrupt_id: str) -> tuple[str, str, str] | None:
    """Split the id of a team's interrupt.

    Args:
        interrupt_id: The id as the team's caller has it.

    Returns:
        The mark of the flow, the invocation that asked, and the id as the member knows it; None if it is no member's.
    """
    invocation, _, inner = interrupt_id.partition("/")
    found = _INVOCATION.fullmatch(invocation)
    return (found["flow"], invocation, inner) if found and inner else None


def said_id(flow: str, number: int) -> str:
    """Return the id of a message of the team's own."""
    return f"said-{flow}.{number}"


def is_said_by_team(message: Message) -> bool:
    """Return whether a message of the team's conversation is its own, rather than a member's or its caller's."""
    return message.role == "assistant" and _SAID.fullmatch(message.id) is not None


def speakers(message: Message) -> list[str]:
    """Return the keys of the member that has said something, and of the teams around it, the outermost first."""
    owner = message.subagent_run_id or message.id.partition("/")[0]
    parts = [(part, _INVOCATION.fullmatch(_MARK.sub("", part))) for part in owner.split("/")]
    return [found["key"] if found else part for part, found in parts]


def owner_key(message: Message, keys: Iterable[str]) -> str | None:
    """Return the key of the member that a message of the team's conversation belongs to; None for the team's own."""
    names = [message.id] if message.subagent_run_id is None else [message.subagent_run_id, message.id]
    if isinstance(message, ToolMessage):
        names.append(message.tool_call_id)
    heads = [name.partition("/")[0] for name in names]
    for head in heads:
        found = _INVOCATION.fullmatch(head)
        key = found["key"] if found else head
        if key in keys:
            return key
    return None


class Translations:
    """The ids and messages of one conversation of a member in both forms, for its next call in the same run."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        """The ids that the team's conversation has, by those of the member."""
        self._pairs: dict[int, tuple[Message, Message]] = {}

    def add(self, above: Message, below: Message) -> None:
        """Note the two forms of a message: the one in the team's conversation, and the member's."""
        # The pairs keep the messages, so that no other message can get the `id()` of one.
        self._pairs[id(above)] = self._pairs[id(below)] = (above, below)

    def above(self, below: Message) -> Message | None:
        """Return a message of the member as the team's conversation has it; None if it is not known."""
        pair = self._pairs.get(id(below))
        return pair[0] if pair is not None and pair[1] is below else None

    def below(self, above: Message) -> Message | None:
        """Return a message of the team's conversation as the member has it; None if it is not known."""
        pair = self._pairs.get(id(above))
        return pair[1] if pair is not None and pair[0] is above else None


class IdMap:
    """The ids of one invocation of a member.

    Args:
        invocation: The `subagentRunId` of the invocation.
        prefix: The prefix of the member's ids in the team's conversation, its slash included.
        known: The translations of earlier calls with this prefix.
    """

    def __init__(self, invocation: str, prefix: str, known: Translations | None = None) -> None:
        self.invocation = invocation
        """The `subagentRunId` of the invocation."""
        self.prefix = prefix
        """The prefix of the member's ids in the team's conversation."""
        self._known = known or Translations()
        self._up = self._known.ids
        self._tags: dict[str, str] = {}

    def up(self, item_id: str) -> str:
        """Return an id of the member as the team's caller gets it."""
        known = self._up.get(item_id)
        if known is None:
            # An id that ends like a mark gets one, which comes off on the way down.
            known = self._up[item_id] = f"{self.prefix}{item_id}{'~0' if _MARK.search(item_id) else ''}"
        return known

    def rename(self, item_id: str, number: int) -> str:
        """Give another id to something whose id another call of the member has in use, and return it.

        Args:
            item_id: The id of the member.
            number: A number that no other call of the member has, above zero.
        """
        self._up[item_id] = f"{self.prefix}{item_id}~{number}"
        return self._up[item_id]

    def tag(self, subagent_run_id: str | None) -> str:
        """Return the owner of something that the member's stream owns itself or gives to a subagent of the member."""
        return (
            self.invocation
            if subagent_run_id is None
            else self._tags.get(subagent_run_id, self.prefix + subagent_run_id)
        )

    def rename_tag(self, subagent_run_id: str, number: int) -> str:
        """Give another id to a subagent of the member whose id was announced before in the same run, and return it.

        Args:
            subagent_run_id: The id of the member.
            number: A number that no subagent of that id has, above zero.
        """
        self._tags[subagent_run_id] = f"{self.prefix}{subagent_run_id}~{number}"
        return self._tags[subagent_run_id]

    def is_own(self, message: Message) -> bool:
        """Return whether a message of the team's conversation is part of this member's conversation."""
        # The id first: a call asks this about all messages, and to ask a model for its class takes long.
        if message.id.startswith(self.prefix):
            return True
        return isinstance(message, ToolMessage) and message.tool_call_id.startswith(self.prefix)

    def above(self, message: Message) -> Message | None:
        """Return a message of the member as the team's conversation has it; None if it is not known there."""
        return self._known.above(message)

    def execution_up(self, execution: ToolExecution) -> ToolExecution:
        """Return the execution of a tool by the member, about the call as it is in the team's conversation."""
        call_id, message = self.up(execution.tool_call_id), execution.message
        if message is not None:
            message = changed(message, id=self.up(message.id), tool_call_id=call_id)
        return replace(execution, tool_call_id=call_id, message=message)

    def message_up(self, message: Message, tag: str | None) -> Message:
        """Return a new message of the member as it is in the team's conversation.

        Args:
            tag: The owner that the message has above.
        """
        changes: dict[str, object] = {"id": self.up(message.id), "subagent_run_id": tag}
        if isinstance(message, ToolMessage):
            changes["tool_call_id"] = self.up(message.tool_call_id)
        if isinstance(message, AssistantMessage) and message.tool_calls:
            changes["tool_calls"] = [changed(each, id=self.up(each.id)) for each in message.tool_calls]
        above = changed(message, **changes)
        self._known.add(above, message)
        return above

    def message_down(self, message: Message) -> Message:
        """Return a message of the team's conversation that is the member's own as the member knows it."""
        if (known := self._known.below(message)) is not None:
            return known
        tag = message.subagent_run_id
        inner = self._down(tag) if tag is not None and tag.startswith(self.prefix) else None
        changes: dict[str, object] = {"id": self._down(message.id), "subagent_run_id": inner}
        if isinstance(message, ToolMessage):
            changes["tool_call_id"] = self._down(message.tool_call_id)
            # The caller's own result of a call has an id that the caller chose.
            self._up[str(changes["id"])] = message.id
        if isinstance(message, AssistantMessage) and message.tool_calls:
            changes["tool_calls"] = [changed(each, id=self._down(each.id)) for each in message.tool_calls]
            # An id that the member uses again means its latest call.
            self._up.update((self._down(each.id), each.id) for each in message.tool_calls)
        below = changed(message, **changes)
        self._known.add(message, below)
        return below

    def interrupt_up(self, interrupt: Interrupt) -> Interrupt:
        """Return an interrupt of the member as the team's: its id leads back to this invocation (INT-4)."""
        call = interrupt.tool_call_id
        return interrupt.model_copy(
            update={
                "id": f"{self.invocation}/{interrupt.id}",
                "tool_call_id": None if call is None else self.up(call),
                "subagent_run_id": self.tag(interrupt.subagent_run_id),
            }
        )

    def _down(self, item_id: str) -> str:
        return _MARK.sub("", item_id.removeprefix(self.prefix))


def changed(model: ModelT, **changes: object) -> ModelT:
    """Return a copy of an official model with changes: `model_copy` in a third of the time."""
    copy: ModelT = object.__new__(type(model))
    object.__setattr__(copy, "__dict__", {**model.__dict__, **changes})
    given = {name for name, value in changes.items() if value is not None}
    absent = changes.keys() - given
    object.__setattr__(copy, "__pydantic_fields_set__", (model.__pydantic_fields_set__ | given) - absent)
    object.__setattr__(copy, "__pydantic_extra__", model.__pydantic_extra__)
    object.__setattr__(copy, "__pydantic_private__", None)
    return copy


_new, _set = object.__new__, object.__setattr__
_OWNED = frozenset({"subagent_run_id"})


def with_owner(event: TextMessageContentEvent, message_id: str, owner: str | None) -> TextMessageContentEvent:
    """Return a text event under another id and owner: `changed` in half the time."""
    copy = _new(TextMessageContentEvent)
    _set(copy, "__dict__", {**event.__dict__, "message_id": message_id, "subagent_run_id": owner})
    given = event.__pydantic_fields_set__
    _set(copy, "__pydantic_fields_set__", given - _OWNED if owner is None else given | _OWNED)
    _set(copy, "__pydantic_extra__", event.__pydantic_extra__)
    _set(copy, "__pydantic_private__", None)
    return copy


def state_patch(*operations: dict[str, Any]) -> list[Any]:
    """Return JSON Patch operations as an event has them."""
    given: Any = list(operations)
    return StateDeltaEvent(delta=given).delta


def as_pointer(*parts: str) -> str:
    """Return a JSON Pointer of these members."""
    return reduce(pointer, parts, "")
