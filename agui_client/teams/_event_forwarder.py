"""Passing a member's events on: under the team's ids, with the member as their owner (SUB-2 … SUB-8, STATE-3).

A member that speaks for the team has no owner for its messages and calls, which are the team's then; for all else it
has. What a member leaves open when it fails is closed here, so that the team's run can finish (LIFE-5, SUB-7).

To change

- what becomes of a member's events: this module, a handler for each type; snapshots in `teams/_snapshot_events.py`, ids
  in `teams/_id_scope.py`
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Literal, TypeAlias

from ag_ui import core
from ag_ui.core import Event, Message

from agui_client._core.protocol.outcome import partial_message_ids
from agui_client._core.protocol.placeholders import EXTENSION, UNKNOWN_RESULT, extension_of, marked
from agui_client._core.protocol.schema import is_object
from agui_client._core.protocol.traits import TRAITS, Subject, types_about
from agui_client._core.run.subagents import JOURNAL, without_journal
from agui_client.teams._id_scope import (
    IdMap,
    Translations,
    as_pointer,
    changed,
    split_invocation,
    state_patch,
    with_owner,
)
from agui_client.teams._snapshot_events import events_between, whole_snapshot

StatePolicy: TypeAlias = Literal["nested", "shared", "dropped"]
"""The place of a member's state: under the member's name in the team's, the team's own, or nowhere."""
Whole: TypeAlias = Callable[[Sequence[Message]], core.MessagesSnapshotEvent]
"""Makes a snapshot of the team's messages as they are when the event is delivered."""

_PARTIAL = "partial"
_PLACED: Any = object()
_KINDS: tuple[Subject, ...] = ("text", "reasoning", "phase", "call", "activity")
_TEXT, _THOUGHT, _SPAN, _CALL, _ACTIVITY = range(len(_KINDS))
_KIND: dict[type, int] = {
    each: _KINDS.index(TRAITS[each].about)
    for each in types_about(*_KINDS)
    if TRAITS[each].part not in ("chunk", "result")  # chunks are expanded before, and results have a handler
}
_END_OF: dict[Subject, type[Any]] = {TRAITS[each].about: each for each in types_about(*_KINDS, part="end")}
_MESSAGE_KIND = {"reasoning": _THOUGHT, "activity": _ACTIVITY}
_ENDS: dict[type, type[Any]] = {each: _END_OF[TRAITS[each].about] for each in types_about(*_KINDS, part="start")}
_END_TYPES = frozenset(_ENDS.values())


class ItemOwners:
    """The owners of all items of a run: an item that another call of a member continues keeps its own (SUB-3).

    Args:
        messages: The messages that the run begins with.
    """

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        thoughts: dict[str, str | None] = {}
        self.by_kind: tuple[dict[str, str | None], ...] = ({}, thoughts, thoughts, {}, {})
        """The owners by the ids of the items, for each kind of item; a span has that of the message with its id."""
        self.answered: set[str] = set()
        """The ids of calls that have their result."""
        self.announced: Counter[str] = Counter()
        """The number of times that each subagent was announced."""
        self.translations: defaultdict[str, Translations] = defaultdict(Translations)
        """The translations of each conversation of a member, by the prefix of its ids."""
        self._earlier = messages
        for message in messages:
            self.by_kind[_MESSAGE_KIND.get(message.role, _TEXT)][message.id] = message.subagent_run_id

    def restate_calls(self) -> None:
        """Note whose the calls of earlier runs are, as a snapshot of all messages makes them calls of this run."""
        earlier, self._earlier = self._earlier, ()
        for message in earlier:
            if isinstance(message, core.ToolMessage):
                self.answered.add(message.tool_call_id)
            elif isinstance(message, core.AssistantMessage):
                for call in message.tool_calls or ():
                    self.by_kind[_CALL].setdefault(call.id, message.subagent_run_id)


class EventForwarder:
    """Passes the events of one invocation of a member on.

    Args:
        ids: The ids of the invocation.
        speaks: Whether the member's messages are the team's own.
        state: The place of the member's state.
        state_key: The name of the member's state in the team's.
        baseline: The state that the member begins with, if the team's state has no place for it yet.
        owners: The owners of the items of the run.
    """

    def __init__(
        self,
        ids: IdMap,
        *,
        speaks: bool,
        state: StatePolicy,
        state_key: str,
        owners: ItemOwners,
        baseline: Any = _PLACED,
    ) -> None:
        self._ids, self._state_key = ids, state_key
        self._own_tag = None if speaks else ids.invocation
        self._run_owners, self._owners = owners, owners.by_kind
        self._open: dict[tuple[object, ...], Event] = {}
        self.unanswered: dict[str, None] = {}
        """The ids of the calls that were passed on and have no result."""
        self.answered: set[str] = owners.answered
        """The ids of the calls whose results were passed on, in the whole run of the team."""
        on_snapshot, on_delta = {
            "nested": (self._nested_snapshot, self._nested_delta),
            "shared": (self._shared_snapshot, self._shared_delta),
            "dropped": (_nothing, _nothing),
        }[state]
        self._baseline = baseline
        self._handlers: dict[type, Callable[[Any], Sequence[Event]]] = {
            **dict.fromkeys(_KIND, self._item_start),
            core.TextMessageContentEvent: self._text_content,
            **dict.fromkeys((core.ReasoningMessageContentEvent, core.ToolCallArgsEvent), self._item_delta),
            core.ActivityDeltaEvent: self._item_delta,
            **dict.fromkeys(_ENDS.values(), self._item_end),
            core.ToolCallResultEvent: self._result,
            core.ReasoningEncryptedValueEvent: self._encrypted,
            core.StepStartedEvent: self._step,
            core.StepFinishedEvent: self._step,
            core.StateSnapshotEvent: on_snapshot,
            core.StateDeltaEvent: on_delta,
            core.SubagentStartedEvent: self._subagent_started,
            **dict.fromkeys((core.SubagentFinishedEvent, core.SubagentErrorEvent), self._subagent_ended),
            **dict.fromkeys(
                (core.RunStartedEvent, core.RunFinishedEvent, core.RunErrorEvent, core.MessagesSnapshotEvent),
                _nothing,
            ),
        }

    def feed(self, event: Event) -> Sequence[Event]:
        """Return the events that an event of the member becomes; none for those of its run and for snapshots."""
        handler = self._handlers.get(type(event))
        return (self._tagged(event),) if handler is None else handler(event)

    def snapshot(self, before: Sequence[Message], after: Sequence[Message], foreign: frozenset[str]) -> list[Any]:
        """Return the events for a MESSAGES_SNAPSHOT of the member.

        Args:
            before: The member's messages before it.
            after: The member's messages now.
            foreign: The ids of the messages that are not the member's own: a member cannot change those.

        Returns:
            Events; or a function that makes the one that restates all messages of the team.
        """
        repeated = _repeated(after, foreign)
        own = [self.message_up(each) for each in before if each.id not in foreign]
        now = [self.message_up(each) for each in after if each.id not in foreign and each.id not in repeated]
        if own == now:
            return []
        events = events_between(own, now, self._is_of_open)
        if events is not None:
            for event in events:
                self._note(event)
            return list(events)
        self._run_owners.restate_calls()

        def whole(messages: Sequence[Message]) -> core.MessagesSnapshotEvent:
            """Make the snapshot."""
            return whole_snapshot(messages, own, now)

        return [whole]

    def message_up(self, message: Message) -> Message:
        """Return a message of the member as it is in the team's conversation."""
        if (known := self._ids.above(message)) is not None:
            # Nearly every message: each call goes through all that the member has said before.
            return known
        tag = message.subagent_run_id
        is_said = message.role not in _MESSAGE_KIND
        owner = self._own_tag if is_said and tag is None else self._ids.tag(tag)
        kind = _MESSAGE_KIND.get(message.role, _TEXT)
        return self._ids.message_up(message, self._owners[kind].get(self._ids.up(message.id), owner))

    def close(
        self,
        reason: str,
        begun: Collection[str] = (),
        partial: Iterable[Message] = (),
        awaited: Collection[str] = (),
    ) -> list[Event]:
        """Return events that end whatever the member left open, and give results to its calls.

        Args:
            reason: A sentence for those who asked: the result of calls that have none.
            begun: The ids of those whose functions were called: what became of them is unknown.
            partial: The messages that are not a reply, as the member failed, with a mark for those who see them.
            awaited: The ids of those that stay open, as a member of this member waits for them.
        """
        reopened: list[Event] = []
        for each in partial:
            fields: dict[str, Any] = {"message_id": each.id, **_owner(each.subagent_run_id)}
            end = core.TextMessageEndEvent(**fields, metadata=each.metadata)
            if (_TEXT, each.id) not in self._open:
                reopened.append(core.TextMessageStartEvent(**fields, role="assistant"))
                reopened.append(end)
            else:
                self._open[_TEXT, each.id] = end
        events = [*self._open.values()][::-1]
        self._open.clear()
        if earlier := [each for each in begun if each not in self.unanswered]:
            # Calls of an earlier run, which a person has approved in this one.
            self._run_owners.restate_calls()
            self.unanswered |= dict.fromkeys(earlier)
        results: list[Event] = [
            core.ToolCallResultEvent(
                message_id=f"{call}-result",
                tool_call_id=call,
                **({"content": UNKNOWN_RESULT, "metadata": marked()} if call in begun else {"content": reason}),
                **_owner(self._owners[_CALL].get(call)),
            )
            for call in self.unanswered
            if call not in awaited
        ]
        self.unanswered.clear()
        return events + reopened + results

    # --- one kind of event each

    def _tagged(self, event: Any) -> Event:
        tagged: Event = changed(event, subagent_run_id=self._ids.tag(event.subagent_run_id))
        return tagged

    def _text_content(self, event: core.TextMessageContentEvent) -> Sequence[Event]:
        # Nearly every event passes here.
        item_id = self._ids.up(event.message_id)
        return (with_owner(event, item_id, self._owners[_TEXT].get(item_id, self._own_tag)),)

    def _item_start(self, event: Any) -> Sequence[Event]:
        kind, ids = _KIND[type(event)], self._ids
        field = _id_field(kind)
        changes: dict[str, Any] = {field: ids.up(getattr(event, field))}
        item_id: str = changes[field]
        own = ids.invocation if kind in (_THOUGHT, _SPAN, _ACTIVITY) else self._own_tag
        if kind == _CALL and event.parent_message_id is not None:
            changes["parent_message_id"] = parent = ids.up(event.parent_message_id)
            own = self._owners[_TEXT].get(parent, own)
        owner = own if event.subagent_run_id is None else ids.tag(event.subagent_run_id)
        if kind == _CALL:
            item_id = self._call_id(event, item_id, owner, changes)
            self.unanswered[item_id] = None
        if kind == _ACTIVITY and event.replace is not False:
            self._owners[kind][item_id] = owner
        else:
            owner = self._owners[kind].setdefault(item_id, owner)
        passed: Event = changed(event, subagent_run_id=owner, **changes)
        self._note(passed)
        return (passed,)

    def _call_id(self, event: core.ToolCallStartEvent, item_id: str, owner: str | None, changes: dict[str, Any]) -> str:
        """Return the id of a call; its own if an earlier call of the member has had one of that id and owner.

        Servers that number the calls of each run from the start give one id to calls of several invocations.
        """
        known = self._owners[_CALL].get(item_id, owner)
        if known == owner:
            return item_id
        if item_id in self._run_owners.answered:
            _, _, number = split_invocation(self._ids.invocation) or ("", "", 0)
            while self._owners[_CALL].get(item_id, owner) != owner:
                number += 1
                changes["tool_call_id"] = item_id = self._ids.rename(event.tool_call_id, number)
        else:
            # The call continues under its owner, which has to be the owner of its message (SUB-4).
            changes["parent_message_id"] = None
        return item_id

    def _item_delta(self, event: Any) -> Sequence[Event]:
        kind = _KIND[type(event)]
        field = _id_field(kind)
        item_id = self._ids.up(getattr(event, field))
        owner = self._owners[kind].get(item_id, self._ids.tag(event.subagent_run_id))
        return (changed(event, subagent_run_id=owner, **{field: item_id}),)

    def _item_end(self, event: Any) -> Sequence[Event]:
        (passed,) = self._item_delta(event)
        self._note(passed)
        return (passed,)

    def _note(self, event: Any) -> None:
        """Note what an event opens or closes, in the team's ids."""
        event_type: type[Any] = event.__class__
        kind = _KIND.get(event_type)
        if kind is None or kind == _ACTIVITY:
            return
        field = _id_field(kind)
        item_id = getattr(event, field)
        if (end := _ENDS.get(event_type)) is not None:
            self._owners[kind].setdefault(item_id, event.subagent_run_id)
            self._open[kind, item_id] = end(**{field: item_id}, **_owner(event.subagent_run_id))
        elif event_type in _END_TYPES:
            self._open.pop((kind, item_id), None)

    def _is_of_open(self, event: Any) -> bool:
        """Return whether an event begins or ends an item, in the team's ids, that the member has open."""
        event_type: type[Any] = event.__class__
        if event_type not in _ENDS and event_type not in _END_TYPES:
            return False
        kind = _KIND[event_type]
        return (kind, getattr(event, _id_field(kind))) in self._open

    def _result(self, event: core.ToolCallResultEvent) -> Sequence[Event]:
        call = self._ids.up(event.tool_call_id)
        self.unanswered.pop(call, None)
        self._run_owners.answered.add(call)
        owner = self._owners[_CALL].get(call, self._own_tag)
        if event.subagent_run_id is not None:
            owner = self._ids.tag(event.subagent_run_id)
        ids = {"message_id": self._ids.up(event.message_id), "tool_call_id": call}
        self._owners[_TEXT].setdefault(ids["message_id"], owner)
        return (changed(event, subagent_run_id=owner, **ids),)

    def _encrypted(self, event: core.ReasoningEncryptedValueEvent) -> Sequence[Event]:
        """Pass a value on under the owner of its item, or none if that is not known here: none never disagrees."""
        entity_id = self._ids.up(event.entity_id)
        is_of_text = entity_id in self._owners[_TEXT]
        kind = _CALL if event.subtype == "tool-call" else _TEXT if is_of_text else _THOUGHT
        return (changed(event, subagent_run_id=self._owners[kind].get(entity_id), entity_id=entity_id),)

    def _step(self, event: Any) -> Sequence[Event]:
        passed: Any = self._tagged(event)
        key = ("step", passed.subagent_run_id, event.step_name)
        if isinstance(event, core.StepStartedEvent):
            owner = _owner(passed.subagent_run_id)
            self._open[key] = core.StepFinishedEvent(step_name=event.step_name, **owner)
        else:
            self._open.pop(key, None)
        return (passed,)

    def _subagent_started(self, event: core.SubagentStartedEvent) -> Sequence[Event]:
        scope = self._ids
        announced = self._run_owners.announced
        first_id = scope.prefix + event.subagent_run_id
        if announced[first_id]:
            # No id is announced twice in a run (SUB-6); of a member, several runs may be one run of the team.
            while announced[scope.rename_tag(event.subagent_run_id, announced[first_id])]:
                announced[first_id] += 1
            announced[scope.tag(event.subagent_run_id)] += 1
        announced[first_id] += 1
        ids = {
            "subagent_run_id": scope.tag(event.subagent_run_id),
            "parent_subagent_run_id": scope.tag(event.parent_subagent_run_id),
            "parent_tool_call_id": None if event.parent_tool_call_id is None else scope.up(event.parent_tool_call_id),
            "parent_message_id": None if event.parent_message_id is None else scope.up(event.parent_message_id),
        }
        inner = ids["subagent_run_id"]
        assert inner is not None
        ended = core.SubagentErrorEvent(subagent_run_id=inner, message="its caller ended", code="cancelled")
        self._open["subagent", inner] = ended
        return (changed(event, **ids),)

    def _subagent_ended(self, event: core.SubagentFinishedEvent | core.SubagentErrorEvent) -> Sequence[Event]:
        inner = self._ids.tag(event.subagent_run_id)
        self._open.pop(("subagent", inner), None)
        changes: dict[str, Any] = {"subagent_run_id": inner}
        outcome = getattr(event, "outcome", None)
        if isinstance(outcome, core.SubagentFinishedSuspendedOutcome) and outcome.interrupt_ids is not None:
            waiting = [f"{self._ids.invocation}/{each}" for each in outcome.interrupt_ids]
            changes["outcome"] = outcome.model_copy(update={"interrupt_ids": waiting})
        if more := extension_of(event):
            ids: dict[str, Any] = {}
            if isinstance(message_id := more.get("messageId"), str):
                ids["messageId"] = self._ids.up(message_id)
            if partial := partial_message_ids(event):
                ids["partialMessageIds"] = [self._ids.up(each) for each in partial]
            changes["metadata"] = {**(event.metadata or {}), EXTENSION: {**more, **ids}}
        return (changed(event, **changes),)

    # --- state

    def _shared_snapshot(self, event: core.StateSnapshotEvent) -> Sequence[Event]:
        return (changed(self._tagged(event), snapshot=without_journal(event.snapshot)),)

    def _shared_delta(self, event: core.StateDeltaEvent) -> Sequence[Event]:
        operations = [each for each in event.delta if not _is_of_journal(each)]
        return (changed(self._tagged(event), delta=operations),) if operations else ()

    def _nested_snapshot(self, event: core.StateSnapshotEvent) -> Sequence[Event]:
        # Not the difference from the snapshot before: another call of this member may have written here since.
        value = without_journal(event.snapshot)
        return self._placed(event, state_patch({"op": "add", "path": as_pointer(self._state_key), "value": value}))

    def _nested_delta(self, event: core.StateDeltaEvent) -> Sequence[Event]:
        place = as_pointer(self._state_key)
        operations = [_moved(each, place) for each in event.delta if not _is_of_journal(each)]
        if operations and self._baseline is not _PLACED:
            operations[:0] = state_patch({"op": "add", "path": place, "value": self._baseline})
        return self._placed(event, operations) if operations else ()

    def _placed(self, event: Any, operations: Any) -> Sequence[Event]:
        """Return an event of the state as the operations that it becomes under the member's name."""
        self._baseline = _PLACED
        delta = core.StateDeltaEvent(delta=operations, subagent_run_id=self._ids.tag(event.subagent_run_id))
        return (changed(delta, timestamp=event.timestamp, raw_event=event.raw_event, metadata=event.metadata),)


def journal_operations(event: core.StateSnapshotEvent | core.StateDeltaEvent) -> list[dict[str, Any]]:
    """Return what an event of a member that is a team changes in its journal, as operations of a JSON Patch on that."""
    if isinstance(event, core.StateSnapshotEvent):
        state = event.snapshot
        if is_object(state) and JOURNAL in state:
            return [{"op": "add", "path": "", "value": state[JOURNAL]}]
        return [{"op": "remove", "path": ""}]
    found = [each.model_dump(mode="json", by_alias=True) for each in event.delta if _is_of_journal(each)]
    return [{**each, "path": each["path"].removeprefix(f"/{JOURNAL}")} for each in found if "from" not in each]


def as_partial(message: Message) -> Message:
    """Return a message with the mark that it is not a reply, as the member that wrote it failed."""
    more = {**extension_of(message), _PARTIAL: True}
    return changed(message, metadata={**(message.metadata or {}), EXTENSION: more})


def is_partial(message: Message) -> bool:
    """Return whether a message is not a reply, as the member that wrote it failed."""
    return extension_of(message).get(_PARTIAL) is True


def _nothing(_event: Event) -> Sequence[Event]:
    return ()


def _is_of_journal(operation: Any) -> bool:
    # What a member moves away or copies from there would be the journal of the team around it.
    places: list[str] = [operation.path, getattr(operation, "from_", None) or ""]
    return any(each == f"/{JOURNAL}" or each.startswith(f"/{JOURNAL}/") for each in places)


def _moved(operation: Any, place: str) -> Any:
    changes = {"path": place + operation.path}
    if (source := getattr(operation, "from_", None)) is not None:
        changes["from_"] = place + source
    return operation.model_copy(update=changes)


def _id_field(kind: int) -> str:
    return "tool_call_id" if kind == _CALL else "message_id"


def _owner(owner: str | None) -> dict[str, Any]:
    return {} if owner is None else {"subagent_run_id": owner}


def _repeated(after: Sequence[Message], foreign: frozenset[str]) -> set[str]:
    """Return the ids of messages that repeat, under ids of the member's server, messages of others."""
    missing = foreign - {message.id for message in after}
    if not missing:
        return set()
    said = {"user", "system", "developer"}
    return {message.id for message in after if message.role in said and message.id not in foreign}
