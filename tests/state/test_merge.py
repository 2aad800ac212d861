"""The three-way merge: cases one by one, and what holds for all values.

The cases follow the rules that the abstract of draft-jurkovikj-json-three-way-merge-00 states; its vectors were not to
be had. A side that changed nothing gives way, the same change is one change, absent is not null, and a conflict names
its place. What a case says of arrays is ours.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agui_client._core.conversation.state_merging import our_side, with_edit
from agui_client._core.protocol.schema import is_array, is_object
from agui_client.state import ABSENT, Conflict, Sides, merge
from support.json_edits import Values, scalars


class Case(NamedTuple):
    base: Any
    ours: Any
    theirs: Any
    merged: Any
    conflicts: tuple[Conflict, ...] = ()


A, B, C = {"id": "a", "n": 1}, {"id": "b", "n": 1}, {"id": "c", "n": 1}

CASES = {
    "nobody changes anything": Case({"a": 1}, {"a": 1}, {"a": 1}, {"a": 1}),
    "we change": Case(1, 2, 1, 2),
    "they change": Case(1, 1, 2, 2),
    "both change the same way": Case(1, 2, 2, 2),
    "both change, the root": Case(1, 2, 3, 3, (Conflict("", 1, 2, 3),)),
    "one number in two spellings": Case(1, 1.0, 2, 2),
    "true is not 1": Case(1, True, 2, 2, (Conflict("", 1, True, 2),)),
    "different members": Case({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}),
    "different members, deep": Case(
        {"x": {"y": {"a": 1, "b": 1}}}, {"x": {"y": {"a": 2, "b": 1}}}, {"x": {"y": {"a": 1, "b": 2}}},
        {"x": {"y": {"a": 2, "b": 2}}},
    ),
    "the same member": Case({"a": 1}, {"a": 2}, {"a": 3}, {"a": 3}, (Conflict("/a", 1, 2, 3),)),
    "names with / and ~": Case({"a/~": 1}, {"a/~": 2}, {"a/~": 3}, {"a/~": 3}, (Conflict("/a~1~0", 1, 2, 3),)),
    "both add, different members": Case({}, {"a": 1}, {"b": 2}, {"b": 2, "a": 1}),
    "both add the same": Case({}, {"a": [1]}, {"a": [1]}, {"a": [1]}),
    "both add one member": Case({}, {"a": 1}, {"a": 2}, {"a": 2}, (Conflict("/a", ABSENT, 1, 2),)),
    "two objects that are added are not mixed": Case(
        {}, {"hotel": {"name": "Ritz"}}, {"hotel": {"stars": 5}}, {"hotel": {"stars": 5}},
        (Conflict("/hotel", ABSENT, {"name": "Ritz"}, {"stars": 5}),),
    ),
    "we remove": Case({"a": 1, "b": 1}, {"b": 1}, {"a": 1, "b": 1}, {"b": 1}),
    "they remove": Case({"a": 1, "b": 1}, {"a": 1, "b": 1}, {"b": 1}, {"b": 1}),
    "both remove": Case({"a": 1}, {}, {}, {}),
    "we remove what they change": Case(
        {"a": {"b": 1}}, {}, {"a": {"b": 2}}, {"a": {"b": 2}}, (Conflict("/a", {"b": 1}, ABSENT, {"b": 2}),)
    ),
    "we change what they remove": Case({"a": 1}, {"a": 2}, {}, {}, (Conflict("/a", 1, 2, ABSENT),)),
    "null is not absent": Case({"a": 1}, {"a": None}, {}, {}, (Conflict("/a", 1, None, ABSENT),)),
    "null replaces": Case({"a": 1, "b": 1}, {"a": None, "b": 1}, {"a": 1, "b": 2}, {"a": None, "b": 2}),
    "an object becomes a text": Case(
        {"a": {"b": 1}}, {"a": "b"}, {"a": {"b": 2}}, {"a": {"b": 2}}, (Conflict("/a", {"b": 1}, "b", {"b": 2}),)
    ),
    "different elements": Case([1, 2, 3], [0, 2, 3], [1, 2, 4], [0, 2, 4]),
    "different members of one element": Case(
        [A, B], [{**A, "n": 2}, B], [{**A, "m": 3}, B], [{**A, "n": 2, "m": 3}, B]
    ),
    "the same element": Case([1, 2], [1, 3], [1, 4], [1, 4], (Conflict("/1", 2, 3, 4),)),
    "we append, they change": Case([A], [A, B], [{**A, "n": 2}], [{**A, "n": 2}, B]),
    "they put one before what we change": Case([A, B], [A, {**B, "n": 2}], [C, A, B], [C, A, {**B, "n": 2}]),
    "both append": Case([1], [1, 2], [1, 3], [1, 3, 2]),
    "both append to an empty list": Case({"a": []}, {"a": [1, 2]}, {"a": [3]}, {"a": [3, 1, 2]}),
    "both append, and change what was there": Case([A], [{**A, "n": 2}, B], [{**A, "m": 3}, C],
        [{**A, "n": 2, "m": 3}, C, B]),
    "both append, one of them equal at the same place": Case([1], [1, 2, 5], [1, 3, 5], [1, 3, 5, 2]),
    "both append an equal one at different places": Case([1], [1, 2, 3], [1, 3], [1, 3, 2, 3]),
    "both append one with the same id": Case([A], [A, B, {**C, "n": 2}], [A, C], [A, C, B],
        (Conflict("/1", ABSENT, {**C, "n": 2}, C),)),
    "both insert at the head": Case([1], [2, 1], [3, 1], [3, 1], (Conflict("", [1], [2, 1], [3, 1]),)),
    "both append the same": Case([1], [1, 2], [1, 2], [1, 2]),
    "we remove one of two equal ones": Case([1, 1], [1], [1, 1, 2], [1, 2]),
    "we append, they prepend": Case([1], [1, 2], [0, 1], [0, 1, 2]),
    "we remove one, they another": Case([A, B, C], [B, C], [A, B], [B]),
    "both remove one": Case([A, B, C], [A, C], [A, C], [A, C]),
    "we insert one and change all, they change one": Case(
        [A, B], [C, {**A, "n": 2}, {**B, "n": 2}], [A, {**B, "m": 3}],
        [C, {**A, "n": 2}, {**B, "n": 2, "m": 3}],
    ),
    "two elements with different ids are not mixed": Case(
        [A], [C], [{**A, "m": 3}], [{**A, "m": 3}], (Conflict("/0", A, C, {**A, "m": 3}),)
    ),
    "elements without ids are known by their values": Case(
        [{"n": 1}, {"n": 2}], [{"n": 0}, {"n": 3}, {"n": 4}], [{"n": 1}, {"n": 5}], [{"n": 1}, {"n": 5}],
        (Conflict("", [{"n": 1}, {"n": 2}], [{"n": 0}, {"n": 3}, {"n": 4}], [{"n": 1}, {"n": 5}]),),
    ),
    "we remove the one that they change": Case(
        [A, B], [B], [{**A, "n": 2}, B], [{**A, "n": 2}, B], (Conflict("", [A, B], [B], [{**A, "n": 2}, B]),)
    ),
    "a conflict is named by its place in the merged value": Case(
        {"l": [1, 5]}, {"l": [1, 6]}, {"l": [0, 1, 7]}, {"l": [0, 1, 7]}, (Conflict("/l/2", 5, 6, 7),)
    ),
    "beside a conflict the rest is merged": Case(
        {"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "c": 1}, {"a": 3, "b": 1, "c": 3}, {"a": 3, "b": 2, "c": 3},
        (Conflict("/a", 1, 2, 3),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_a_merge_has_both_changes_and_names_conflicts(case: Case) -> None:
    found = merge(case.base, case.ours, case.theirs)
    assert json.dumps(found.merged) == json.dumps(case.merged)
    assert found.conflicts == case.conflicts


def test_a_function_decides_conflicts_and_may_remove_the_place() -> None:
    def both(conflict: Conflict) -> Any:
        return [*conflict.ours, *conflict.theirs[1:]]

    assert merge({"a": [1]}, {"a": [2, 1]}, {"a": [3, 1]}, both).merged == {"a": [2, 1, 1]}
    assert merge({"a": 1}, {"a": 2}, {"a": 3}, lambda _: ABSENT).merged == {}


def test_an_absent_value_is_false_and_prints_its_name() -> None:
    assert not ABSENT
    assert repr(ABSENT) == "ABSENT"


def test_an_edit_that_puts_another_element_in_a_place_keeps_nothing_of_the_old_one() -> None:
    raw, before = [{"id": 1, "more": 1}, {"id": 2, "more": 2}], [{"id": 1}, {"id": 2}]
    assert with_edit(raw, before, [{"id": 1, "n": 5}, {"id": 3}]) == [{"id": 1, "n": 5, "more": 1}, {"id": 3}]


def test_an_edit_of_a_model_leaves_alone_what_the_model_does_not_know() -> None:
    raw = {"legs": [{"to": "Oslo", "via": "sea"}, {"to": "Rome", "via": "air"}], "seen": 1, "day": "1 May"}
    before = {"legs": [{"to": "Oslo", "price": 0}, {"to": "Rome", "price": 0}], "day": "05-01", "budget": 0}
    after = {"legs": [{"to": "Rome", "price": 9}], "day": "05-01", "budget": 0}
    assert with_edit(raw, before, after) == {"legs": [{"to": "Rome", "price": 9}], "seen": 1, "day": "1 May"}
    after = {"legs": [before["legs"][1], {"to": "Bonn", "price": 1}], "day": "05-01", "budget": 5}  # type: ignore[index]
    assert with_edit(raw, before, after) == {
        "legs": [{"to": "Rome", "via": "air"}, {"to": "Bonn", "price": 1}],
        "seen": 1,
        "day": "1 May",
        "budget": 5,
    }


# --- for all values


drawn = st.randoms(use_true_random=False)


@given(drawn)
def test_a_side_that_changed_nothing_gives_way(random: Random) -> None:
    base, ours, theirs = Values(random).sides()
    assert merge(base, ours, base) == (ours, ())
    assert merge(base, base, theirs) == (theirs, ())
    assert merge(base, ours, ours) == (ours, ())
    assert merge(base, json.loads(json.dumps(ours)), json.loads(json.dumps(base))) == (ours, ())
    assert with_edit(base, base, ours) == ours


def unordered(value: Any) -> Any:
    """The value with its arrays in an order of their own, as of two appends those of the other side come first."""
    if is_array(value):
        return sorted(map(unordered, value), key=str)
    return {name: unordered(each) for name, each in sorted(value.items())} if is_object(value) else value


numbers = st.lists(st.integers(0, 2), max_size=4)


@given(numbers, numbers, numbers)
def test_what_both_sides_append_stands_theirs_first(base: list[int], ours: list[int], theirs: list[int]) -> None:
    more = [our for index, our in enumerate(ours) if theirs[index : index + 1] != [our]]
    assert merge(base, base + ours, base + theirs) == (base + theirs + more, ())


@given(drawn)
def test_sides_can_be_exchanged(random: Random) -> None:
    base, ours, theirs = Values(random).sides()
    one, other = merge(base, ours, theirs), merge(base, theirs, ours, our_side)
    assert unordered(one.merged) == unordered(other.merged)
    exchanged = [Conflict(each.path, each.base, each.theirs, each.ours) for each in other.conflicts]
    assert sorted(map(repr, one.conflicts)) == sorted(map(repr, exchanged))


@given(drawn)
def test_no_edit_is_lost_without_a_conflict_that_names_it(random: Random) -> None:
    base, ours, theirs = Values(random).sides()
    merged, conflicts = merge(base, ours, theirs)
    had, has = scalars(base), scalars(merged)
    for side, of in ((ours, "ours"), (theirs, "theirs")):
        new, removed = scalars(side) - had, had - scalars(side)
        named = sum((scalars(getattr(each, of)) for each in conflicts), Counter[str]())
        assert not new - has - named
        assert not (removed & has) - sum((scalars(each.base) for each in conflicts), Counter[str]())
    assert not has - scalars(ours) - scalars(theirs)


@given(drawn)
def test_a_conflict_is_at_its_place_and_its_sides_differ(random: Random) -> None:
    base, ours, theirs = Values(random).sides()
    merged, conflicts = merge(base, ours, theirs, lambda conflict: f"conflict at {conflict.path}")
    for each in conflicts:
        assert each.base != each.ours != each.theirs != each.base
        value: Any = merged
        for member in each.path.split("/")[1:]:
            value = value[int(member)] if is_array(value) else value[member]
        assert value == f"conflict at {each.path}"


@given(drawn)
def test_merging_changes_none_of_its_values(random: Random) -> None:
    values = Values(random).sides()
    before = json.dumps(values)
    merge(*values)
    with_edit(*values)
    assert json.dumps(values) == before


def later(conflict: Conflict) -> object:
    """Let the record that was changed later win."""
    assert conflict.record is not None
    is_ours = conflict.record.ours["updatedAt"] > conflict.record.theirs["updatedAt"]
    return conflict.ours if is_ours else conflict.theirs


def test_a_choice_sees_the_record_around_a_conflict_so_that_the_later_change_wins() -> None:
    def legs(*changes: dict[str, Any]) -> dict[str, Any]:
        return {"legs": [{"id": number, "price": 1, "tags": ["a"], **each} for number, each in enumerate(changes)]}

    base = legs({"updatedAt": "1"}, {"updatedAt": "1"})
    ours = legs({"updatedAt": "3", "price": 3}, {"updatedAt": "2", "price": 3, "tags": ["x"]})
    theirs = legs({"updatedAt": "2", "price": 2}, {"updatedAt": "4", "price": 2, "tags": ["y", "z", "u"], "note": "n"})
    merged, conflicts = merge(base, ours, theirs, later)
    assert merged == {"legs": [ours["legs"][0], theirs["legs"][1]]}
    assert [(each.path, each.record) for each in conflicts if each.path.endswith("price")] == [
        ("/legs/0/price", Sides(base["legs"][0], ours["legs"][0], theirs["legs"][0])),
        ("/legs/1/price", Sides(base["legs"][1], ours["legs"][1], theirs["legs"][1])),
    ]
    assert [each.record for each in merge(1, 2, 3).conflicts] == [None]
