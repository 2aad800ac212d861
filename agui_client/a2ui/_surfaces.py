"""The surfaces of a conversation (`Surfaces`): what its messages carry, carried out once and in order.

The contents of an activity are cumulative: each has the operations of the one before, and more. Only what follows their
common prefix is carried out, so that what a person entered in the meantime stays. A value that a person entered gives
way only to another one that the agent sends for its path. If messages are removed or come in another order, all is
carried out anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import is_not
from typing import TYPE_CHECKING, Any

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.a2ui._carriers import Carried, carried_in, entered_in, may_carry
from agui_client.a2ui._operations import operations_in
from agui_client.a2ui._surface import Status, Surface
from agui_client.a2ui._words import MOST_ATTEMPTS

if TYPE_CHECKING:
    from ag_ui.core import Message

_STATUSES: dict[str, Status] = {"building": "building", "retrying": "retrying", "failed": "failed"}


@dataclass(frozen=True, slots=True)
class Progress:
    """A surface that is not there yet, or that the agent gave up."""

    message_id: str
    """The id of its message."""
    status: Status
    """The progress of the agent."""
    tokens: int | None = None
    """About how many tokens have been written; None if the agent does not say."""
    attempt: int | None = None
    """The number of the attempt, from 1; None for the first."""
    most_attempts: int = MOST_ATTEMPTS
    """The number of attempts that the agent makes."""
    error: str = ""
    """The fault, as the agent says it; empty if there was none."""


class Surfaces(Mapping[str, Surface]):
    """The surfaces of a conversation by their ids, in the order in which they were created.

    Args:
        messages: The messages of the conversation.
        source: A function that returns the messages of a conversation that changes, at each look; None once
            there is none any more.
        keep: A function that keeps what a person entered: it gets the id of the surface, and JSON. Without it that
            lives as long as this object.
    """

    def __init__(
        self,
        messages: Sequence[Message] = (),
        *,
        source: Callable[[], Sequence[Message] | None] | None = None,
        keep: Callable[[str, Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._keep, self._source = keep, source
        self._problems: list[str] = []
        self._surfaces: dict[str, Surface] = {}
        self._carried: list[Carried] = []
        self._kept: dict[str, Mapping[str, Any]] = {}
        self._carried_out = 0
        self.looked_at: tuple[Message, ...] = ()
        """The messages that were taken in last."""
        self.update(messages)

    def __getitem__(self, surface_id: str) -> Surface:
        self._look()
        return self._surfaces[surface_id]

    def __iter__(self) -> Iterator[str]:
        self._look()
        return iter([*self._surfaces])

    def __len__(self) -> int:
        self._look()
        return len(self._surfaces)

    def __repr__(self) -> str:
        return f"<Surfaces: {', '.join(map(repr, self._surfaces)) or 'none'}>"

    @property
    def progress(self) -> list[Progress]:
        """The surfaces that are not there yet, and those that the agent gave up, in order."""
        self._look()
        return [_progress(each) for each in self._carried if str(each.lifecycle.get("status")) in _STATUSES]

    @property
    def problems(self) -> list[str]:
        """The parts that were sent and belong to no surface, as sentences."""
        self._look()
        return list(self._problems)

    def _look(self) -> None:
        if self._source is not None and (messages := self._source()) is not None:
            self.update(messages)

    def update(self, messages: Sequence[Message]) -> None:
        """Take in the messages of the conversation as they are now.

        Args:
            messages: All messages, which never change: another message with the same id stands for a change.
        """
        last, self.looked_at = self.looked_at, tuple(messages)
        if not any(may_carry(each, self._carried) for each in _changed(last, self.looked_at)):
            return
        carried, kept = carried_in(messages), dict(entered_in(messages))
        known, known_kept, self._kept = self._carried, self._kept, kept
        is_longer = [each.key for each in known] == [each.key for each in carried[: len(known)]]
        # Another conversation may have come in its place, in which a person entered something else.
        self._carried = carried
        if is_longer and kept == known_kept:
            for before, after in zip(known, carried, strict=False):
                if before != after:
                    self._continue(before, after)
            for each in carried[len(known) :]:
                self._begin(each)
        else:
            self._restart(carried)

    def kept(self, surface_id: str, *, with_hidden: bool = False) -> dict[str, Any]:
        """Return what a person entered on a surface as JSON, as the messages of a conversation keep it.

        Args:
            with_hidden: Whether what is hidden while it is typed is in it.
        """
        surface = self._surfaces[surface_id]
        key = surface.carried_by[-1]
        # By the operation that it was entered after: what the agent sends later comes after it again.
        behind = next(len(each.operations) for each in self._carried if each.key == key)
        values = surface.entered if with_hidden else surface.entered_to_keep()
        return {"surfaceId": surface_id, "entered": {key: dict(values)}, "behind": behind}

    # --- carrying out

    def _restart(self, carried: Sequence[Carried]) -> None:
        former, self._surfaces, self._problems, self._carried_out = self._surfaces, {}, [], 0
        entered = {surface_id: surface.entered_now() for surface_id, surface in former.items()}
        for each in carried:
            self._begin(each, former)
        for surface_id, surface in self._surfaces.items() if self._keep is None else ():
            surface.enter_again(entered.get(surface_id, {}))

    def _begin(self, carried: Carried, former: Mapping[str, Surface] | None = None) -> None:
        """Carry out a message that was not there, and enter what a person had entered behind its operations."""
        done, count = 0, len(carried.operations)
        entered = {key: each for key, each in self._kept.items() if is_object(each["entered"].get(carried.key))}
        for behind in sorted({min(_behind(each, count), count) for each in entered.values()} | {count}):
            if done:
                self._extend(carried, carried.operations[done:behind], is_appended=True)
            else:
                self._carry_out(carried, carried.operations[:behind], former)
            for surface_id, each in entered.items():
                if min(_behind(each, count), count) == behind and surface_id in self._surfaces:
                    self._surfaces[surface_id].enter(each["entered"][carried.key])
            done = behind

    def _continue(self, before: Carried, after: Carried) -> None:
        """Carry out what a content has more than the one before it."""
        if not after.operations:
            for surface in self._surfaces.values():
                if surface.message_ids and surface.message_ids[-1] == after.message_id:
                    surface.status = _STATUSES.get(str(after.lifecycle.get("status")), "ready")
            return
        same = 0
        for old, new in zip(before.operations, after.operations, strict=False):
            if old != new:
                break
            same += 1
        # Operations that are appended, rather than written anew, mean the paths that they name.
        self._extend(after, after.operations[same:], is_appended=same == len(before.operations))

    def _extend(
        self,
        carried: Carried,
        operations: Sequence[Any],
        *,
        is_appended: bool,
    ) -> None:
        """Carry out further operations of a message, and enter again what they do not replace."""
        entered = {surface_id: surface.entered_now() for surface_id, surface in self._surfaces.items()}
        self._carry_out(carried, operations)
        meant = _named_paths(operations) if is_appended else set[tuple[str, str]]()
        for surface_id, values in entered.items():
            if surface_id in self._surfaces:
                again = {path: each for path, each in values.items() if (surface_id, path) not in meant}
                self._surfaces[surface_id].enter_again(again)

    def _carry_out(
        self, carried: Carried, operations: Sequence[Any], former: Mapping[str, Surface] | None = None
    ) -> None:
        for operation in operations_in(operations):
            self._carried_out += 1
            surface_id = operation.surface_id
            if not surface_id:
                self._note(operation.problem, carried)
            elif operation.kind == "deleteSurface":
                self._surfaces.pop(surface_id, None)
            else:
                if surface_id not in self._surfaces:
                    self._surfaces[surface_id] = self._opened(surface_id, former or {})
                surface = self._surfaces[surface_id]
                surface.apply(operation)
                surface.status, surface.revision = "ready", self._carried_out
                if carried.key not in surface.carried_by[-1:]:
                    surface.carried_by.append(carried.key)
                    surface.message_ids.append(carried.message_id)

    def _opened(self, surface_id: str, former: Mapping[str, Surface]) -> Surface:
        # The same object, which the application may have in its hands.
        if (surface := former.get(surface_id)) is None:
            return Surface(surface_id, self._look, self._when_entered)
        surface.reset()
        return surface

    def _note(self, problem: str, carried: Carried) -> None:
        of_message = [each for each in self._surfaces.values() if carried.message_id in each.message_ids[-1:]]
        for surface in of_message:
            surface.note(problem)
        if not of_message and problem not in self._problems:
            self._problems.append(problem)

    # --- what a person entered

    def _when_entered(self, surface: Surface) -> None:
        if self._keep is None:
            return
        content = self.kept(surface.id)
        self._kept = {**self._kept, surface.id: content}
        self._keep(surface.id, content)


def _behind(kept: Mapping[str, Any], count: int) -> int:
    """Return the number of operations of a message behind which something was entered; all, if it is not known."""
    behind = _count(kept.get("behind"))
    return count if behind is None or behind < 0 else behind


def _named_paths(operations: Sequence[Any]) -> set[tuple[str, str]]:
    """Return the surfaces and paths of data that operations name, apart from those of all data."""
    updates = [each for each in operations_in(operations) if each.kind == "updateDataModel"]
    return {(each.surface_id, str(each.body.get("path"))) for each in updates}


def _changed(before: Sequence[Message], after: Sequence[Message]) -> list[Message]:
    """Return what is between the messages that two looks begin with and those that both end with, of both looks."""
    # Without a loop of Python over what is the same: an application may look after each event.
    shorter = min(len(before), len(after))
    start = next(compress(count(), map(is_not, before, after)), shorter)
    end = next(compress(count(), map(is_not, reversed(before), reversed(after))), shorter)
    end = min(end, shorter - start)
    return [*before[start : len(before) - end], *after[start : len(after) - end]]


def _progress(carried: Carried) -> Progress:
    about = carried.lifecycle
    errors = about.get("errors")
    texts = [each.get("message") for each in errors if is_object(each)] if is_array(errors) else []
    error = about.get("error") or "; ".join(each for each in texts[:5] if isinstance(each, str))
    return Progress(
        carried.message_id,
        _STATUSES[str(about["status"])],
        _count(about.get("progressTokens")),
        _count(about.get("attempt")),
        _count(about.get("maxAttempts")) or MOST_ATTEMPTS,
        str(error)[:1_000],
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
