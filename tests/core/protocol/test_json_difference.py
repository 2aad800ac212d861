"""The difference of two JSON values: what jsonpatch is asked, and when it is not."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest

from agui_client._core.protocol.json_difference import difference
from support.json_patches import applied

_LONG = {"text": "not changed " * 1000}


def rows(count: int) -> list[Any]:
    return [{"id": number, "title": f"Row {number}", "tags": ["a", "b"]} for number in range(count)]


CHANGES: list[tuple[Any, Any, list[Any]]] = [
    ({"a": [1, {"b": 0}]}, {"a": [1.0, {"b": 0.0}]}, []),
    ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
    ([0, 0], [0, False], [{"op": "replace", "path": "/1", "value": False}]),
    ({"": {"a/b": {"~é": 1}}}, {"": {"a/b": {"~é": 2}}}, [{"op": "replace", "path": "//a~1b/~0é", "value": 2}]),
    (None, {}, [{"op": "replace", "path": "", "value": {}}]),
    (rows(9), [*rows(4), {"id": "x"}, *rows(9)[4:]], [{"op": "add", "path": "/4", "value": {"id": "x"}}]),
    (rows(9), [*rows(4), *rows(9)[5:]], [{"op": "remove", "path": "/4"}]),
    (
        rows(9),
        [*rows(9)[:3], {**rows(9)[3], "id": None}, *rows(9)[4:8], {**rows(9)[8], "tags": ["a"]}],
        [{"op": "replace", "path": "/3/id", "value": None}, {"op": "remove", "path": "/8/tags/1"}],
    ),
    # A window that moved on is no change of each of its elements.
    (
        rows(9)[:8],
        rows(9)[1:],
        [{"op": "remove", "path": "/0"}, {"op": "add", "path": "/7", "value": rows(9)[8]}],
    ),
    (
        {"open": rows(5), "done": []},
        {"open": rows(5)[:4], "done": [rows(5)[4]]},
        [{"op": "move", "from": "/open/4", "path": "/done/0"}],
    ),
]


@pytest.mark.parametrize(("before", "after", "expected"), CHANGES)
def test_each_change_has_an_operation_at_its_place(before: Any, after: Any, expected: list[Any]) -> None:
    assert difference(before, after, is_detailed=True) == expected


def test_jsonpatch_gets_only_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    make_patch = jsonpatch.make_patch

    def noting(before: Any, after: Any) -> jsonpatch.JsonPatch:
        asked.append((before, after))
        return make_patch(before, after)

    monkeypatch.setattr(jsonpatch, "make_patch", noting)
    before = {**_LONG, "rows": rows(100), "log": [*range(50)], "old": 1}
    changed = [{**row, "title": "New"} if row["id"] in (7, 90) else row for row in rows(100)]
    after = {**_LONG, "rows": changed, "log": [*range(20), "x", *range(21, 40), *range(45, 50)]}
    operations = difference(before, after)
    titles = [{str(at): {"title": text.format(at)} for at in (7, 90)} for text in ("Row {}", "New")]
    assert asked == [
        (
            {"rows": titles[0], "log": [*range(20, 45)], "old": 1},
            {"rows": titles[1], "log": ["x", *range(21, 40)]},
        )
    ]
    assert operations == [
        {"op": "remove", "path": "/old"},
        {"op": "replace", "path": "/rows/7/title", "value": "New"},
        {"op": "replace", "path": "/rows/90/title", "value": "New"},
        {"op": "replace", "path": "/log/20", "value": "x"},
        *[{"op": "remove", "path": "/log/40"}] * 5,
    ]


def test_a_part_that_its_operations_would_be_longer_than_is_replaced_whole() -> None:
    numbers = [*range(4000)]
    assert difference({**_LONG, "n": numbers}, {**_LONG, "n": numbers[::2]}) == [
        {"op": "replace", "path": "/n", "value": numbers[::2]}
    ]
    vector = {**_LONG, "n": numbers[:300]}, {**_LONG, "n": [each + 0.5 for each in numbers[:300]]}
    assert difference(*vector) == [{"op": "replace", "path": "/n", "value": vector[1]["n"]}]
    assert len(difference(*vector, is_detailed=True) or ()) == 300


def test_there_is_no_difference_where_the_value_itself_is_shorter() -> None:
    assert difference({"n": 1}, {"n": 2}) is None
    assert difference({"n": 1}, {"n": 2}, is_detailed=True) == [{"op": "replace", "path": "/n", "value": 2}]
    # Each element is at another place: only the finished patch shows that it is the longer one.
    assert difference([*range(100)], [*range(0, 100, 2), *range(1, 100, 2)]) is None


def test_arrays_that_are_too_long_to_be_aligned_are_compared_place_by_place_or_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [{**row, "text": "x" * 200} for row in rows(2500)]
    ticked = [{**row, "title": "New"} for row in before]
    replacements = [{"op": "replace", "path": f"/{at}/title", "value": "New"} for at in range(2500)]
    assert difference(before, ticked) == replacements
    mixed = [{"id": "x"}, *before[:-1], {**before[-1], "title": "New"}]
    assert difference({**_LONG, "rows": before}, {**_LONG, "rows": mixed}, is_detailed=True) == [
        {"op": "replace", "path": "/rows", "value": mixed}
    ]
    monkeypatch.delattr(jsonpatch, "make_patch")
    others = [{name: [each] for name, each in row.items()} for row in before]
    assert difference(before, others, is_detailed=True) is None


def test_a_value_as_deep_as_a_state_may_be_is_compared() -> None:
    before: Any = 1
    after: Any = 2
    for level in range(195):
        before, after = ({"a": before}, {"a": after}) if level % 2 else ([0, before], [0, 0, after])
    operations = difference(before, after, is_detailed=True)
    assert operations is not None
    assert applied(before, operations) == after
