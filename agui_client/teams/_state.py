"""The state of a team's run as its caller has it: the team's own, and the journal beside it.

Members that are at work at the same time begin with the same state, and each changes what it knows of it. So a change
of a member is merged with those that others made meanwhile, unless there were none
(`_core.conversation.state_merging`).

To change

- the state of a team: this module: the journal in it, and how changes of members at the same time are merged
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

from ag_ui.core import Event, StateDeltaEvent, StateSnapshotEvent

from agui_client._core.conversation.state_merging import ABSENT, Conflict, merge
from agui_client._core.protocol.json_difference import difference
from agui_client._core.protocol.reduce import Change, Reducer
from agui_client._core.protocol.schema import is_object
from agui_client._core.run.subagents import JOURNAL, is_wrapped, with_journal, without_journal
from agui_client.teams._id_scope import changed, state_patch

StateEvent: TypeAlias = StateSnapshotEvent | StateDeltaEvent


class StateView:
    """The team's state as one call of a member knows it.

    Args:
        place: The member of the state that the call changes; empty for a state that is shared.
        state: The state that the call begins with.
        seen: The number of changes at that place, which are in it.
    """

    def __init__(self, place: str, state: Any, seen: int) -> None:
        self.place = place
        """The member of the state that the call changes; empty for a state that is shared."""
        self.reducer: Reducer = Reducer((), state)
        """The state, as far as the call knows it."""
        self.seen = seen
        """The number of changes at that place; less than there were once the state of the call is another one."""


class TeamState:
    """The team's state and the journal in it.

    Args:
        reducer: The team's conversation, whose state this is.
    """

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer
        self._changes: Counter[str] = Counter()
        self._is_wrapped = not is_object(reducer.state) or is_wrapped(reducer.state)

    @property
    def own(self) -> Any:
        """The state without the journal; to be read only."""
        return without_journal(self._reducer.state)

    def view(self, place: str, placed: Any) -> StateView:
        """Return the state as a call of a member begins with it.

        Args:
            place: The member of the state that the call changes; empty for a state that is shared.
            placed: The value of that member.
        """
        own = self.own
        return StateView(place, {**own, place: placed} if place and is_object(own) else own, self._seen(place))

    def begin(self, journal: dict[str, Any], *, has_state: bool) -> Event:
        """Put a new journal into the state.

        Args:
            has_state: Whether the caller has sent a state, which an event can patch.
        """
        own = self.own
        if has_state and is_object(self._reducer.state) and not self._is_wrapped:
            return self._fed(StateDeltaEvent(delta=state_patch({"op": "add", "path": f"/{JOURNAL}", "value": journal})))
        return self._fed(StateSnapshotEvent(snapshot=with_journal(own, journal)))

    def write(self, operations: Sequence[dict[str, Any]]) -> Event:
        """Change the journal.

        Args:
            operations: The operations on it.
        """
        moved = [{**each, "path": f"/{JOURNAL}{each['path']}"} for each in operations]
        return self._fed(StateDeltaEvent(delta=state_patch(*moved)))

    def end(self) -> Event:
        """Take the journal out of the state."""
        if self._is_wrapped:
            return self._fed(StateSnapshotEvent(snapshot=self.own))
        return self._fed(StateDeltaEvent(delta=state_patch({"op": "remove", "path": f"/{JOURNAL}"})))

    def take(self, event: StateEvent, view: StateView) -> Event | None:
        """Take over a change of the state.

        Args:
            event: The event of a member, for the team's own state.
            view: The state as the call knows it.

        Returns:
            The event for the caller; None if the state stays as it is.
        """
        is_current = view.seen == self._seen(view.place)
        before = None if is_current else view.reducer.state
        changes = view.reducer.feed(event)
        if is_current:
            passed = self._passed(event)
        elif changes is Change.NONE:
            return None
        else:
            now = self.own
            # The member is the later side: of one place its value stands, and what it appends comes last.
            merged = merge(before, view.reducer.state, now, _later).merged
            passed = self._passed(_event_between(now, merged, event))
        if passed is None:
            return None
        self._changes[view.place] += 1
        view.seen = self._seen(view.place) if is_current else -1
        return self._fed(passed)

    def _seen(self, place: str) -> int:
        return self._changes[place] + self._changes[""] if place else self._changes.total()

    def _passed(self, event: StateEvent) -> StateEvent | None:
        """Return an event for the team's own state as one for the state with the journal in it."""
        if isinstance(event, StateDeltaEvent):
            if not event.delta:
                return None
            if not self._is_wrapped and not any(_is_whole(each) for each in event.delta):
                return event
            reducer = Reducer((), self.own)
            if reducer.feed(event) is Change.NONE:
                return None
            event = _snapshot(reducer.state, event)
        journal: Any = self._reducer.state[JOURNAL]
        return changed(event, snapshot=with_journal(event.snapshot, journal))

    def _fed(self, event: StateEvent) -> Event:
        self._reducer.feed(event)
        if isinstance(event, StateSnapshotEvent):
            self._is_wrapped = not is_object(event.snapshot) or is_wrapped(event.snapshot)
        return event


def _later(conflict: Conflict) -> Any:
    """Return the value of the later side; of two sides that have both begun an object, the members of both."""
    if conflict.base is ABSENT and is_object(conflict.ours) and is_object(conflict.theirs):
        return merge({}, conflict.ours, conflict.theirs, _later).merged
    return conflict.ours


def _event_between(before: Any, after: Any, event: StateEvent) -> StateEvent:
    operations = difference(before, after)
    if operations is None:
        return _snapshot(after, event)
    delta = StateDeltaEvent(delta=state_patch(*operations), subagent_run_id=event.subagent_run_id)
    return changed(delta, timestamp=event.timestamp, metadata=event.metadata)


def _snapshot(state: Any, event: StateEvent) -> StateSnapshotEvent:
    snapshot = StateSnapshotEvent(snapshot=state, subagent_run_id=event.subagent_run_id)
    return changed(snapshot, timestamp=event.timestamp, metadata=event.metadata)


def _is_whole(operation: Any) -> bool:
    return operation.path == "" or getattr(operation, "from_", None) == ""
