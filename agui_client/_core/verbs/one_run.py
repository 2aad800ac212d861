"""Several runs of an agent as one of its caller: no invocation is announced twice, no item changes its owner.

What is legal in two runs need not be so in one: a `subagentRunId` may come back in a later run (SUB-1, SUB-6), and an
item may have another owner there (SUB-3, SUB-4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ag_ui import core
from ag_ui.core import Message

from agui_client._core.protocol.traits import DELTAS, TRAITS, Subject

_ITEMS: tuple[Subject, ...] = ("text", "reasoning", "phase", "call", "activity", "value")
_KINDS: dict[str, Subject] = {"reasoning": "reasoning", "activity": "activity"}


class MergedRun:
    """Makes the events of several runs those of one, and tells which messages of an echoed input none has brought."""

    def __init__(self) -> None:
        self._owners: dict[tuple[Subject, str], str | None] = {}
        self._ids: set[str] = set()
        self._announced: dict[str, int] = {}
        self._tags: dict[str, str] = {}

    def begin(self) -> None:
        """Begin a run; its ids of subagents name other invocations than those of the runs before."""
        self._tags = {}

    def feed(self, event: Any) -> Any:
        """Return an event under the ids and owners that it has in the caller's run."""
        about = TRAITS[type(event)].about
        if about == "messages":
            return _with(event, messages=self.messages(event.messages))
        if about == "run":
            return self._finished(event) if isinstance(event, core.RunFinishedEvent) else event
        if event.subagent_run_id is None and type(event) in DELTAS:
            return event  # nearly every event
        if isinstance(event, core.SubagentStartedEvent):
            return self._announce(event)
        if about in _ITEMS:
            return self._item(event, about)
        return _with(event, subagent_run_id=self._tag(event.subagent_run_id))

    def messages(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages under the owners that they have in the caller's run; items continue under these."""
        return [self._message(each) for each in messages]

    def echoed(self, event: core.RunStartedEvent, *known: Sequence[Message]) -> list[Message]:
        """Return the messages of the input that a run echoes which the caller does not have (LIFE-14).

        Args:
            event: The start of the run.
            known: Messages that the caller has, or that this side sent.
        """
        given = event.input.messages if event.input is not None else ()
        if not given:
            return []
        ids = self._ids.union(*({message.id for message in messages} for messages in known))
        return self.messages([message for message in given if message.id not in ids])

    def _tag(self, tag: str | None) -> str | None:
        return None if tag is None else self._tags.get(tag, tag)

    def _announce(self, event: core.SubagentStartedEvent) -> Any:
        own_id = new_id = event.subagent_run_id
        while new_id in self._announced:
            self._announced[own_id] += 1
            new_id = f"{own_id}~{self._announced[own_id]}"
        self._announced[new_id] = 1
        if new_id != own_id:
            self._tags[own_id] = new_id
        return _with(event, subagent_run_id=new_id, parent_subagent_run_id=self._tag(event.parent_subagent_run_id))

    def _item(self, event: Any, about: Subject) -> Any:
        """Return an event about an item, which keeps the owner that it had first, as a reopening has to (SUB-3)."""
        key, owner = self._key(event, about), self._tag(event.subagent_run_id)
        part, changes = TRAITS[type(event)].part, dict[str, Any]()
        if about == "call" and part == "start":
            parent = event.parent_message_id
            self._ids.add(parent or event.tool_call_id)
            of_message = self._owners.get(("text", parent or ""), owner)
            if self._owners.setdefault(key, of_message) != of_message:
                changes["parent_message_id"] = None  # the owner of a call is that of its message (SUB-4)
        elif about == "activity" and part == "snapshot" and event.replace is not False:
            self._owners[key] = owner
        elif part in ("start", "result", "snapshot"):
            self._owners.setdefault(key, owner)
        if about != "phase":
            self._ids.add(key[1])
        return _with(event, subagent_run_id=None if owner is None else self._owners.get(key, owner), **changes)

    def _key(self, event: Any, about: Subject) -> tuple[Subject, str]:
        """Return the kind and the id of the item that an event is about; that of a result is its message."""
        if isinstance(event, core.ReasoningEncryptedValueEvent):
            is_of_text = ("text", event.entity_id) in self._owners
            message: Subject = "text" if is_of_text else "reasoning"
            return "call" if event.subtype == "tool-call" else message, event.entity_id
        if isinstance(event, core.ToolCallResultEvent):
            return "text", event.message_id
        if about == "phase":  # a span has the owner of the message with its id
            about = "reasoning"
        return about, event.tool_call_id if about == "call" else event.message_id

    def _message(self, message: Message) -> Message:
        kind, owner = _KINDS.get(message.role, "text"), message.subagent_run_id
        if owner in self._tags:
            owner = self._owners.get((kind, message.id)) or self._tag(owner)
            message = message.model_copy(update={"subagent_run_id": owner})
        self._ids.add(message.id)
        self._owners[kind, message.id] = owner
        for call in (message.tool_calls or ()) if isinstance(message, core.AssistantMessage) else ():
            self._owners["call", call.id] = owner
        return message

    def _finished(self, event: core.RunFinishedEvent) -> Any:
        outcome = event.outcome
        if not self._tags or not isinstance(outcome, core.RunFinishedInterruptOutcome):
            return event
        asked = [_with(each, subagent_run_id=self._tag(each.subagent_run_id)) for each in outcome.interrupts]
        return _with(event, outcome=_with(outcome, interrupts=asked))


def _with(model: Any, **changes: Any) -> Any:
    """Return a model with changes; itself if it has these values."""
    new = {name: value for name, value in changes.items() if getattr(model, name) != value}
    return model.model_copy(update=new) if new else model
