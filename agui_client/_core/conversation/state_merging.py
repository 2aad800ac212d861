"""Three-way merge of JSON values: edits of different places both stand, and an edit of the same place is a conflict.

The rules are those of draft-jurkovikj-json-three-way-merge as far as its abstract states them: a side that left a place
as it was gives way, the same change on both sides is one change, an absent member differs from null, and conflicts are
records in order. Of arrays it is found out which elements a side inserted, removed and changed: objects with an `id`
are told apart by that, other elements by their values. What both sides append to an array stands, theirs first.

To change

- when two edits of the state conflict: this module; the policies in `_core/agent/state_edits.py`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import compress, count
from operator import is_not
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.json_pointers import pointer
from agui_client._core.protocol.patch import is_same_json
from agui_client._core.protocol.schema import is_array, is_object

_MOST_PAIRS = 10_000
"""The pairs of elements that are compared to find moved ones; in larger arrays a whole range counts as changed."""


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT: Final = Absent.ABSENT
"""Stands for "there is nothing at this place", where None is JSON's null."""


class Sides(NamedTuple):
    """One object as it was before both changes, and as each side has it. Read-only."""

    base: Any
    """The object before both changes."""
    ours: Any
    """The object of the one side, with all its changes."""
    theirs: Any
    """The object of the other side, with all its changes."""


@dataclass(frozen=True, slots=True)
class Conflict(Record):
    """A place that both sides changed in different ways."""

    path: str
    """The JSON pointer of the place, in the merged value."""
    base: Any
    """The value there before both changes; `ABSENT` if there was none."""
    ours: Any
    """The value of the one side; `ABSENT` if it removed it."""
    theirs: Any
    """The value of the other side; `ABSENT` if it removed it."""
    record: Sides | None = field(default=None, compare=False, repr=False)
    """The innermost object around the place, for a choice by another member of it, such as the time of the change; None
    if there is none."""


class Merge(NamedTuple):
    """A merged value, and the conflicts on the way to it."""

    merged: Any
    """The value with the changes of both sides. Read-only: it shares parts with the values that it was made of."""
    conflicts: tuple[Conflict, ...]
    """The places that both sides changed, in the order of the value; empty if every change is in it."""


Choose: TypeAlias = Callable[[Conflict], Any]
"""Returns the value that stands at the place of a conflict; `ABSENT` for none."""


ConflictPolicy: TypeAlias = Literal["theirs", "mine", "raise"] | Choose
"""The value that stands where the application and the agent changed the same place: the agent's ("theirs"), the
application's ("mine"), the one that a function returns, or none, so that a `StateConflictError` is raised ("raise")."""


def their_side(conflict: Conflict) -> Any:
    """Return the value of the other side."""
    return conflict.theirs


def our_side(conflict: Conflict) -> Any:
    """Return the value of this side."""
    return conflict.ours


def merge(base: Any, ours: Any, theirs: Any, choose: Choose = their_side) -> Merge:
    """Merge the changes of two sides that started from one JSON value: `merged, conflicts = merge(base, ours, theirs)`.

    Args:
        base: The JSON value that both sides started from.
        ours: The value that this side made of it.
        theirs: The value that the other side made of it.
        choose: Called with each conflict; returns the value that stands there. By default that of the other side.

    Returns:
        The merged value and the conflicts. None of the three values is changed.
    """
    merger = _Merger(choose)
    merged = merger.value((), base, ours, theirs)
    return Merge(None if merged is ABSENT else merged, tuple(merger.conflicts))


def with_edit(raw: Any, before: Any, after: Any) -> Any:
    """Make the edit that leads from one JSON value to another in a third that is like the first, such as an unread one.

    A model knows some members of an object and fills in others: what was not edited stays as it is in the third. A JSON
    Patch would fail there: a member that the model filled in is not in the third, and nothing can replace it.

    Args:
        raw: The value that is edited.
        before: The same value as the editor saw it, with elements of arrays in the same places.
        after: The value that the editor made of it.
    """
    return _Merger(our_side).edited(raw, before, after)


@dataclass(frozen=True, slots=True)
class _Hunk:
    """A range of an array that one side changed."""

    start: int
    """The first element of the range in the base."""
    end: int
    """The element behind it; the same as `start` where elements were inserted."""
    items: Sequence[Any]
    """The elements that the side has there."""
    is_ours: bool

    def overlaps(self, other: _Hunk) -> bool:
        """Return whether both change the same elements, or insert some at the same place."""
        if self.start == self.end == other.start == other.end:
            return True
        return self.start < other.end and other.start < self.end


_Path: TypeAlias = tuple[Any, ...]
"""A path as (path of the container, member), so that a step costs the same at any depth."""


class _Merger:
    """One merge: remembers which containers are the same, so that none is compared twice."""

    def __init__(self, choose: Choose) -> None:
        self.conflicts: list[Conflict] = []
        self._choose = choose
        self._compared: dict[tuple[int, int], bool] = {}
        self._record: Sides | None = None

    def same(self, left: Any, right: Any) -> bool:
        """Compare two values as JSON."""
        if left is right:
            return True
        if is_object(left) and is_object(right):
            if left.keys() != right.keys():
                return False
            pairs: Iterable[tuple[Any, Any]] = ((value, right[name]) for name, value in left.items())
        elif is_array(left) and is_array(right):
            if len(left) != len(right):
                return False
            pairs = zip(left, right, strict=True)
        else:
            return is_same_json(left, right)
        key = (id(left), id(right))
        if key not in self._compared:
            self._compared[key] = self.all_same(pairs)
        return self._compared[key]

    def all_same(self, pairs: Iterable[tuple[Any, Any]]) -> bool:
        """Compare values in pairs."""
        return all(left is right or self.same(left, right) for left, right in pairs)

    # --- merging

    def value(self, path: _Path, base: Any, ours: Any, theirs: Any) -> Any:
        """Merge the values at one place."""
        if ours is base or ours is theirs:
            return theirs
        if theirs is base:
            return ours
        if is_object(base) and is_object(ours) and is_object(theirs):
            return self._object(path, base, ours, theirs)
        if is_array(base) and is_array(ours) and is_array(theirs):
            return self._array(path, base, ours, theirs)
        return self._whole(path, base, ours, theirs)

    def _whole(self, path: _Path, base: Any, ours: Any, theirs: Any) -> Any:
        """Merge the values at one place without a look into them."""
        if self.same(base, ours) or self.same(ours, theirs):
            return theirs
        return ours if self.same(base, theirs) else self._conflict(path, base, ours, theirs)

    def _conflict(self, path: _Path, base: Any, ours: Any, theirs: Any) -> Any:
        conflict = Conflict(_written(path), base, ours, theirs, self._record)
        self.conflicts.append(conflict)
        return self._choose(conflict)

    def _object(self, path: _Path, base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> Any:
        merged: dict[str, Any] = {}
        around, self._record = self._record, Sides(base, ours, theirs)
        added = [name for name in ours if name not in theirs]
        for name in (*theirs, *added):
            before, our, their = base.get(name, ABSENT), ours.get(name, ABSENT), theirs.get(name, ABSENT)
            value = their if our is before else self.value((path, name), before, our, their)
            if value is not ABSENT:
                merged[name] = value
        self._record = around
        # Parts that nobody else changed are theirs, so that the next merge need not compare them.
        is_theirs = len(merged) == len(theirs) and all(merged.get(name, ABSENT) is theirs[name] for name in theirs)
        return theirs if is_theirs else merged

    def _array(self, path: _Path, base: list[Any], ours: list[Any], theirs: list[Any]) -> Any:
        our_hunks, their_hunks = self._hunks(base, ours, is_ours=True), self._hunks(base, theirs)
        if not our_hunks:
            return theirs
        regions = [*_regions([*our_hunks, *their_hunks])]
        if not all(self._fits(base, region) for region in regions):
            return self._conflict(path, base, ours, theirs)
        merged: list[Any] = []
        position = shift = 0
        for region in regions:
            start, end = region[0].start, max(each.end for each in region)
            merged += theirs[position + shift : start + shift]
            their_items = _items(base, region, is_ours=False)
            if all(each.is_ours for each in region):
                merged += _items(base, region, is_ours=True)
            elif not any(each.is_ours for each in region):
                merged += their_items
            elif start == len(base):
                self._append(merged, path, _items(base, region, is_ours=True), their_items)
            else:
                # Either the same on both sides, or as many elements as before.
                our_items = _items(base, region, is_ours=True)
                for index, (our, their) in enumerate(zip(our_items, their_items, strict=True), start):
                    before = base[index] if index < end else ABSENT
                    value = self._element((path, len(merged)), before, our, their)
                    if value is not ABSENT:
                        merged.append(value)
            position = end
            shift += len(their_items) - (end - start)
        return merged + theirs[position + shift :]

    def _append(self, merged: list[Any], path: _Path, ours: Sequence[Any], theirs: Sequence[Any]) -> None:
        """Append the elements of both sides; equal ones at one place, and those with one id, are one element."""
        left = dict(enumerate(ours))
        by_id = {_id(our): index for index, our in enumerate(ours) if _id(our) is not None}
        for at, their in enumerate(theirs):
            index = by_id.get(_id(their), at)
            is_one = index in left and self._alike(left[index], their)
            value = self._whole((path, len(merged)), ABSENT, left.pop(index), their) if is_one else their
            if value is not ABSENT:
                merged.append(value)
        merged += left.values()

    def _element(self, path: _Path, before: Any, our: Any, their: Any) -> Any:
        """Merge the elements at one place of an array; two objects with different ids are not mixed."""
        is_one = _id(before) == _id(our) == _id(their)
        return self.value(path, before, our, their) if is_one else self._whole(path, before, our, their)

    def _fits(self, base: list[Any], region: Sequence[_Hunk]) -> bool:
        """Return whether the changes of both sides to a range can be merged: appended, or element by element."""
        if len({each.is_ours for each in region}) == 1 or region[0].start == len(base):
            return True
        ours, theirs = _items(base, region, is_ours=True), _items(base, region, is_ours=False)
        if len(ours) != len(theirs):
            return False
        size = max(each.end for each in region) - region[0].start
        return len(ours) == size or self.all_same(zip(ours, theirs, strict=True))

    # --- editing

    def edited(self, raw: Any, before: Any, after: Any) -> Any:
        """Make the edit that leads from one value to another in a third."""
        if self.same(before, after):
            return raw
        if is_object(raw) and is_object(before) and is_object(after):
            kept = {name: value for name, value in raw.items() if name in after or name not in before}
            for name, value in after.items():
                seen, there = before.get(name, ABSENT), raw.get(name, ABSENT)
                if not self.same(seen, value):
                    kept[name] = self.edited(there, seen, value)
            return kept
        if is_array(raw) and is_array(before) and is_array(after) and len(raw) == len(before):
            return self._edited_array(raw, before, after)
        return after

    def _edited_array(self, raw: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
        made: list[Any] = []
        position = 0
        for hunk in self._hunks(before, after):
            made += raw[position : hunk.start]
            if hunk.end - hunk.start == len(hunk.items) == 1 and _id(before[hunk.start]) == _id(hunk.items[0]):
                made.append(self.edited(raw[hunk.start], before[hunk.start], hunk.items[0]))
            else:
                made += hunk.items
            position = hunk.end
        return made + raw[position:]

    # --- arrays

    def _hunks(self, base: list[Any], side: list[Any], *, is_ours: bool = False) -> list[_Hunk]:
        """Return the ranges that a side changed; of as many elements as before each one is a range of its own."""
        shorter = min(len(base), len(side))
        changed = [*self._differing(base, side)]
        if len(base) == len(side) and 2 * sum(not self._alike(base[i], side[i]) for i in changed) <= shorter:
            return [_Hunk(place, place + 1, (side[place],), is_ours) for place in changed]
        start = changed[0] if changed else shorter
        tail = min(next(self._differing(base[::-1], side[::-1]), shorter), shorter - start)
        at, at_side, end, end_side = start, start, len(base) - tail, len(side) - tail
        hunks: list[_Hunk] = []
        for match, match_side in (*self._matches(base, side, range(at, end), range(at, end_side)), (end, end_side)):
            items = side[at_side:match_side]
            if match - at == len(items):
                hunks += [_Hunk(place, place + 1, (item,), is_ours) for place, item in enumerate(items, at)]
            else:
                hunks.append(_Hunk(at, match, items, is_ours))
            if match < end and not self.same(base[match], side[match_side]):
                hunks.append(_Hunk(match, match + 1, (side[match_side],), is_ours))
            at, at_side = match + 1, match_side + 1
        return hunks

    def _differing(self, left: list[Any], right: list[Any]) -> Iterator[int]:
        """Yield the places at which two arrays differ, as far as both go."""
        # Nearly all elements are the same object: those are passed over without a step of Python.
        return (i for i in compress(count(), map(is_not, left, right)) if not self.same(left[i], right[i]))

    def _alike(self, left: Any, right: Any) -> bool:
        """Return whether two elements are the same one, maybe with another content."""
        return (_id(left) is not None and _id(left) == _id(right)) or self.same(left, right)

    def _matches(self, base: list[Any], side: list[Any], rows: range, columns: range) -> Iterator[tuple[int, int]]:
        """Yield the positions of elements that a side kept, though maybe with another content: as many as there are."""
        if len(rows) * len(columns) > _MOST_PAIRS:
            return
        lengths = [[0] * (len(columns) + 1) for _ in range(len(rows) + 1)]
        for row in reversed(range(len(rows))):
            for column in reversed(range(len(columns))):
                if self._alike(base[rows[row]], side[columns[column]]):
                    lengths[row][column] = lengths[row + 1][column + 1] + 1
                else:
                    lengths[row][column] = max(lengths[row + 1][column], lengths[row][column + 1])
        row = column = 0
        while row < len(rows) and column < len(columns):
            if self._alike(base[rows[row]], side[columns[column]]):
                yield rows[row], columns[column]
                row, column = row + 1, column + 1
            elif lengths[row + 1][column] >= lengths[row][column + 1]:
                row += 1
            else:
                column += 1


def _id(element: Any) -> str | int | None:
    """Return the id that tells an object from others in its array; None if it has none."""
    value = element.get("id") if is_object(element) else None
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def _regions(hunks: Iterable[_Hunk]) -> Iterator[list[_Hunk]]:
    """Yield the hunks of both sides in order, those that overlap together."""
    region: list[_Hunk] = []
    for hunk in sorted(hunks, key=lambda each: (each.start, each.end)):
        if region and not any(hunk.overlaps(each) for each in region):
            yield region
            region = []
        region.append(hunk)
    if region:
        yield region


def _items(base: list[Any], region: Sequence[_Hunk], *, is_ours: bool) -> list[Any]:
    """Return the elements that one side has in the range of a region."""
    items: list[Any] = []
    position = region[0].start
    for hunk in region:
        if hunk.is_ours is is_ours:
            items += base[position : hunk.start]
            items += hunk.items
            position = hunk.end
    return items + base[position : max(each.end for each in region)]


def _written(path: _Path) -> str:
    """Return a path as a JSON pointer."""
    members: list[object] = []
    while path:
        path, member = path
        members.append(member)
    text = ""
    for member in reversed(members):
        text = pointer(text, member)
    return text
