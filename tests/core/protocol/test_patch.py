"""JSON Patch with structural sharing: what `jsonpatch` says, without ever touching what somebody else may hold."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeAlias

import jsonpatch
import pytest
from ag_ui.core import StateDeltaEvent
from hypothesis import example, given
from hypothesis import strategies as st

from agui_client._core.protocol.patch import Document, PatchFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

Operation = dict[str, Any]
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_FAILURES = (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException)
_KEYS = ["a", "b", "0", "1", "2", "-", "", "a/b", "~"]
_SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.5, "", "a", "0"])
_DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=12,
)
# Some that Python's int() would read, and JSON Pointer does not.
_TOKENS = st.sampled_from(
    ["a", "b", "0", "1", "2", "3", "-", "", "01", "-1", "+1", "1_0", " 1", "\u0663", "1.0", "a~1b", "~0", "~01"]
)
_PATHS = st.lists(_TOKENS, max_size=4).map(lambda tokens: "".join(f"/{token}" for token in tokens))


def _places(document: Json, path: str = "") -> list[str]:
    """The pointers to all values of a document."""
    places = [path]
    for key, value in _members(document):
        places += _places(value, f"{path}/{key.replace('~', '~0').replace('/', '~1')}")
    return places


def _members(value: Json) -> list[tuple[str, Json]]:
    if isinstance(value, dict):
        return [*value.items()]
    return [(str(index), element) for index, element in enumerate(value)] if isinstance(value, list) else []


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Any, list[Operation]]:
    """A document and a patch whose paths mostly lead somewhere."""
    document = draw(_DOCUMENTS)
    places = st.sampled_from(_places(document))
    path = places | st.tuples(places, _TOKENS).map("/".join) | _PATHS
    with_value = st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "replace", "test"]), "path": path, "value": _DOCUMENTS}
    )
    without = st.fixed_dictionaries({"op": st.just("remove"), "path": path})
    from_there = st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "from": path, "path": path})
    return document, draw(st.lists(with_value | without | from_there, min_size=1, max_size=4))


def operations(patch: Sequence[Operation]) -> Sequence[BaseModel]:
    return StateDeltaEvent.model_validate({"delta": patch}).delta


def patched(document: Any, patch: Sequence[BaseModel]) -> Any:
    changed = Document(document)
    changed.patch(patch)
    return changed.look()


def apply(document: Any, *patch: Operation) -> Any:
    return patched(document, operations(patch))


def outcome_of_jsonpatch(document: Any, patch: Sequence[Operation]) -> tuple[str, Any]:
    try:
        return "applied", jsonpatch.JsonPatch(deepcopy(patch)).apply(deepcopy(document))
    except _FAILURES:
        return "failed", None


def outcome(document: Any, patch: Sequence[BaseModel]) -> tuple[str, Any]:
    try:
        return "applied", patched(document, patch)
    except PatchFailed:
        return "failed", None


def same(left: Any, right: Any) -> bool:
    """Equality of JSON, to which true is not 1."""
    return repr(left) == repr(right)


@pytest.mark.requirement("SNAP-2", "SNAP-5")
@given(_cases())
@example(({"a": {"x": 1}}, [{"op": "move", "from": "/a/x", "path": "/y"}]))
@example(([{}, {"a": 1}, {"a": 2}], [{"op": "move", "from": "/0", "path": "/1/b"}]))
@example(({"0": {}, "1": {}, "2": {}}, [{"op": "move", "from": "/0", "path": "/1/b"}]))
@example(({"a": {"b": {}}}, [{"op": "move", "from": "/a", "path": "/a/b/c"}]))
@example(
    ({"a": [[1]]}, [{"op": "copy", "from": "/a", "path": "/a/0/0"}, {"op": "add", "path": "/a/0/0/-", "value": 2}])
)
def test_a_patch_does_what_jsonpatch_does_to_a_deep_copy_and_leaves_the_original_alone(
    case: tuple[Any, list[Operation]],
) -> None:
    document, patch = case
    before, models = deepcopy(document), operations(patch)
    models_before = deepcopy(models)
    expected = outcome_of_jsonpatch(document, patch)
    assert same(outcome(document, models), expected)
    assert same(document, before)
    assert models == models_before


def _nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


TOO_MUCH: list[tuple[Any, list[Operation], str]] = [
    # A few bytes may ask for a value that nothing can read or write any more ...
    ([[]], [{"op": "add", "path": "/0/0", "value": _nested(194)}], "the value is nested too deeply"),
    # ... or for time in which nothing else is done ...
    (
        [0] * 200_000,
        [{"op": "add", "path": "/0", "value": 1}] * 1_300,
        "the inserts and removals shift too much",
    ),
    ([0] * 200_000, [{"op": "remove", "path": "/0"}] * 1_300, "the inserts and removals shift too much"),
    # ... or that fills the memory.
    (
        {"a": "x" * 1_000_000},
        [{"op": "copy", "from": "/a", "path": f"/{number}"} for number in range(11)],
        "the copies and moves go through too much",
    ),
]
"""All that we do not do as jsonpatch does it: documents, patches, and our reasons."""


@pytest.mark.requirement("SNAP-5")
@pytest.mark.parametrize(("document", "patch", "reason"), TOO_MUCH)
def test_only_a_patch_that_asks_for_too_much_fails_where_jsonpatch_applies_it(
    document: Any, patch: list[Operation], reason: str
) -> None:
    with pytest.raises(PatchFailed, match=f"{reason}$"):
        apply(document, *patch)
    assert outcome_of_jsonpatch(document, patch)[0] == "applied"


@pytest.mark.requirement("SNAP-2")
@given(_DOCUMENTS, st.lists(st.lists(_cases().map(lambda case: case[1]), min_size=1, max_size=3), max_size=4))
def test_no_patch_changes_a_state_that_was_handed_out_before(
    document: Any, rounds: list[list[list[Operation]]]
) -> None:
    held = [(document, deepcopy(document))]
    for patch in (patch for patches in rounds for patch in patches):
        models = operations(patch)
        held.append((models, deepcopy(models)))
        verdict, patched = outcome(document, models)
        document = patched if verdict == "applied" else document
        held.append((document, deepcopy(document)))
    assert all(same(now, then) for now, then in held)


@pytest.mark.requirement("SNAP-2", "SNAP-5")
@given(_DOCUMENTS, st.lists(st.tuples(_cases().map(lambda case: case[1]), st.booleans()), max_size=6))
def test_a_value_changed_in_place_becomes_what_copies_of_it_become(
    document: Any, rounds: list[tuple[list[Operation], bool]]
) -> None:
    changed, seen = Document(deepcopy(document), is_private=True), list[tuple[Any, Any]]()
    for patch, is_looked_at in rounds:
        verdict, expected = outcome_of_jsonpatch(document, patch)
        try:
            changed.patch(operations(patch))
        except PatchFailed:
            assert verdict == "failed"
        else:
            assert verdict == "applied"
            document = expected
        if is_looked_at:
            seen.append((changed.look(), deepcopy(document)))
    # In objects the order of members is no part of the value: what a failing patch took out comes back at the end.
    assert all(now == then for now, then in [*seen, (changed.look(), document)])


def test_containers_that_nobody_has_seen_are_changed_in_place() -> None:
    value: Any = {"a": {"b": [1]}}
    Document(value, is_private=True).patch(operations([{"op": "add", "path": "/a/b/-", "value": 2}]))
    assert value == {"a": {"b": [1, 2]}}


def test_only_the_containers_on_the_touched_path_are_copied() -> None:
    document: Any = {"a": {"b": [1, {"c": 2}]}, "x": {"y": [1]}}
    patched = apply(document, {"op": "replace", "path": "/a/b/0", "value": 9})
    assert patched == {"a": {"b": [9, {"c": 2}]}, "x": {"y": [1]}}
    assert patched["x"] is document["x"]
    assert patched["a"]["b"][1] is document["a"]["b"][1]


def test_a_container_is_copied_once_however_many_operations_touch_it() -> None:
    class Counted(list[int]):
        copies = 0

        def copy(self) -> Counted:
            Counted.copies += 1
            return Counted(self)

    patch: list[Operation] = [{"op": "add", "path": "/a/-", "value": i} for i in range(5)]
    assert apply({"a": Counted()}, *patch) == {"a": [0, 1, 2, 3, 4]}
    assert Counted.copies == 1


def test_a_test_operation_copies_nothing() -> None:
    document = {"a": {"b": 1}}
    assert apply(document, {"op": "test", "path": "/a/b", "value": 1}) is document


@pytest.mark.requirement("SNAP-2")
@pytest.mark.parametrize("root", [None, 0, "", "text", [], {}])
def test_the_root_of_any_document_can_be_replaced(root: Any) -> None:
    assert apply(root, {"op": "replace", "path": "", "value": {"a": None}}) == {"a": None}


@pytest.mark.requirement("SNAP-5")
@pytest.mark.parametrize(
    ("document", "operation", "reason"),
    [
        ({}, {"op": "remove", "path": "/zz"}, "operation 0 (remove '/zz'): the path fits nothing in the current value"),
        ({}, {"op": "remove", "path": ""}, "operation 0 (remove ''): the path fits nothing in the current value"),
        (
            {},
            {"op": "add", "path": "/a/b", "value": 1},
            "operation 0 (add '/a/b'): the path fits nothing in the current value",
        ),
        (
            [1],
            {"op": "replace", "path": "/1", "value": 1},
            "operation 0 (replace '/1'): the path fits nothing in the current value",
        ),
        (
            [1],
            {"op": "add", "path": "/3", "value": 1},
            "operation 0 (add '/3'): the path fits nothing in the current value",
        ),
        (
            [1],
            {"op": "add", "path": "/01", "value": 1},
            "operation 0 (add '/01'): the path fits nothing in the current value",
        ),
        (
            None,
            {"op": "add", "path": "/a", "value": 1},
            "operation 0 (add '/a'): the path fits nothing in the current value",
        ),
        (
            "text",
            {"op": "remove", "path": "/0"},
            "operation 0 (remove '/0'): the path fits nothing in the current value",
        ),
        (
            7,
            {"op": "replace", "path": "/a/b", "value": 1},
            "operation 0 (replace '/a/b'): the path fits nothing in the current value",
        ),
        (
            {"a": {}},
            {"op": "move", "from": "/a", "path": "/a/b"},
            "operation 0 (move '/a' to '/a/b'): the path fits nothing in the current value",
        ),
        (
            {"a": "secret"},
            {"op": "test", "path": "/a", "value": "guess"},
            "operation 0 (test '/a'): the value there is not the tested one",
        ),
    ],
)
def test_a_patch_that_does_not_apply_says_which_operation_and_why_but_no_value(
    document: Any, operation: Operation, reason: str
) -> None:
    with pytest.raises(PatchFailed) as failure:
        apply(document, operation)
    assert str(failure.value) == reason
    assert failure.value.__cause__ is None


@pytest.mark.requirement("SNAP-5")
def test_a_patch_that_fails_half_way_leaves_the_document_as_it_was() -> None:
    document = {"list": [1, 2]}
    with pytest.raises(PatchFailed, match=r"^operation 1 "):
        apply(document, {"op": "add", "path": "/list/-", "value": 3}, {"op": "remove", "path": "/zz"})
    assert document == {"list": [1, 2]}


@pytest.mark.requirement("SNAP-5")
def test_a_member_with_a_name_of_five_thousand_digits_is_nothing_special() -> None:
    digits = "1" * 5000
    assert apply({"0": 1, digits: {}}, {"op": "move", "from": "/0", "path": f"/{digits}/a"}) == {digits: {"a": 1}}
    with pytest.raises(PatchFailed):
        apply([1], {"op": "remove", "path": f"/{digits}"})


@pytest.mark.requirement("PROC-10")
def test_extra_members_of_an_operation_are_ignored() -> None:
    assert apply({"a": 1}, {"op": "remove", "path": "/a", "value": 1, "from": "/b", "x": 2}) == {}
