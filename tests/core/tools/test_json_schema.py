"""Checking values by schemas that servers wrote: in bounded time, in words of our own (INT-7, SEC-2)."""

from __future__ import annotations

from time import thread_time
from typing import Any, TypeAlias

import pytest

from agui_client import FunctionTool
from agui_client._core.tools.json_schema import schema_problems, with_defaults

Schema: TypeAlias = dict[str, Any]

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
BACKTRACKING = "^(a+)+$"
ALMOST = "a" * 27 + "b"
"""Takes Python seconds to find out that the pattern above does not fit it, and twice as many for each letter more."""
SECONDS = 2.0
"""More than a judgement may take on a slow machine."""


def said(place: str, limit: str) -> str:
    return f"{place}: {limit}"


def doubling(keyword: str, levels: int = 18) -> Schema:
    """Definitions each of which refers to the next one twice."""
    twice = [[{"$ref": f"#/$defs/d{level + 1}"}] * 2 for level in range(levels)]
    if keyword == "dependentSchemas":
        definitions: Schema = {
            f"d{level}": {keyword: dict(zip("ab", two, strict=True))} for level, two in enumerate(twice)
        }
    else:
        definitions = {f"d{level}": {keyword: two} for level, two in enumerate(twice)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {}}}


def nested(levels: int) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(levels):
        schema = {"anyOf": [schema, schema]}
    return schema


ENDLESS: dict[str, tuple[Schema, Any]] = {
    "references that double": (doubling("allOf"), "x"),
    "references that double, to find out what is left over": (
        {**doubling("dependentSchemas"), "unevaluatedProperties": False},
        {"a": 1, "b": 2},
    ),
    "references that double, in a part with a dialect of its own": (
        {**doubling("allOf"), "properties": {"x": {"$schema": DRAFT_7, "allOf": [{"$ref": "#/$defs/d0"}]}}},
        {"x": 1},
    ),
    "alternatives of alternatives": (nested(17), 5),
    "alternatives without number": ({"anyOf": [{"type": "null"}] * 100_000}, "x"),
    "choices in an old dialect": ({"$schema": DRAFT_4, "enum": [{"a": each} for each in range(4000)]}, {"a": 1}),
    "more properties than can be checked": ({"properties": {f"p{each}": {} for each in range(50_000)}}, {"p1": 5}),
    "a long search": ({"contains": {"enum": list(range(10_000))}}, [-1] * 5_000),
}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(("schema", "answer"), ENDLESS.values(), ids=list(ENDLESS))
def test_a_schema_that_is_too_large_refuses_nothing(schema: Schema, answer: Any) -> None:
    begun = thread_time()
    assert schema_problems(schema, answer) == []
    assert thread_time() - begun < SECONDS


DOUBLING: dict[str, Schema] = {
    "all of": {"allOf": [{"items": {"$ref": "#"}}] * 2},
    "any of": {"anyOf": [{"items": {"$ref": "#"}, "type": "array"}] * 2},
    "the root": {"$schema": DRAFT_2019, "allOf": [{"items": {"$recursiveRef": "#"}}] * 2},
}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize("schema", DOUBLING.values(), ids=list(DOUBLING))
def test_a_schema_whose_work_doubles_with_each_level_of_the_value_refuses_nothing(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agui_client._core.tools.schema_keywords._MOST_STEPS", 5_000)
    value: Any = 1
    for _ in range(60):
        value = [value]
    begun = thread_time()
    assert schema_problems(schema, value) == []
    assert thread_time() - begun < SECONDS


PATTERNS: dict[str, tuple[Schema, Any, list[str]]] = {
    "in a text": ({"pattern": BACKTRACKING}, ALMOST, [said("$", f'pattern is "{BACKTRACKING}"')]),
    "anywhere in a text": ({"pattern": "b"}, ALMOST, []),
    "in a name": (
        {"propertyNames": {"pattern": BACKTRACKING}},
        {ALMOST: 1},
        [said("$", f'pattern is "{BACKTRACKING}"')],
    ),
    "for other properties": ({"patternProperties": {BACKTRACKING: False}}, {ALMOST: 1}, []),
    "for these properties": (
        {"patternProperties": {BACKTRACKING: {"type": "null"}}},
        {"aa": 1},
        [said("$.aa", 'must be of type "null"')],
    ),
    "for none of the properties": (
        {"patternProperties": {BACKTRACKING: True}, "additionalProperties": False},
        {ALMOST: 1, "aa": 1},
        [said(f"$.{ALMOST}", "the schema has no such member")],
    ),
    "for none that is known": (
        {"patternProperties": {"(?=b)": True}, "additionalProperties": False},
        {ALMOST: 1},
        [],
    ),
    "in a part with a dialect of its own": (
        {"properties": {"x": {"$schema": DRAFT_7, "pattern": BACKTRACKING}}},
        {"x": ALMOST},
        [],
    ),
    "of the root, to which a part refers": (
        {"$schema": DRAFT_7, "properties": {"x": {"$ref": "#"}}, "pattern": BACKTRACKING},
        {"x": ALMOST},
        [said("$.x", f'pattern is "{BACKTRACKING}"')],
    ),
    "in what is left over": (
        {"patternProperties": {BACKTRACKING: True}, "unevaluatedProperties": False},
        {ALMOST: 1},
        [],
    ),
    "beside other keywords": ({"pattern": "(?=c)", "maxLength": 3}, ALMOST, [said("$", "maxLength is 3")]),
    "that looks around": ({"pattern": "^(?=.*[0-9])"}, "x", []),
    "that repeats what it found": ({"pattern": r"^(.)\1$"}, "xy", []),
    "with characters that other engines take for sets": ({"pattern": "^[a-z&&b]+$"}, "&a", []),
    "that is none": ({"pattern": "["}, "x", []),
    "that is too large": ({"pattern": r"\w{1000}"}, "x", []),
    "on a long text": ({"pattern": "^a*$"}, "b" * 10_001, []),
    "on another value": ({"pattern": "^a*$"}, 5, []),
}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(("schema", "answer", "told"), PATTERNS.values(), ids=list(PATTERNS))
def test_a_pattern_is_tried_in_linear_time_or_not_at_all(schema: Schema, answer: Any, told: list[str]) -> None:
    begun = thread_time()
    assert schema_problems(schema, answer) == told
    assert thread_time() - begun < SECONDS


@pytest.mark.requirement("INT-7")
def test_patterns_of_one_value_share_a_bounded_time() -> None:
    slow = {"items": {"pattern": "^(a?){20000}$"}, "prefixItems": [{"type": "null"}]}
    begun = thread_time()
    assert said("$[0]", 'must be of type "null"') in schema_problems(slow, ["a" * 3000 + "!"] * 100)
    assert thread_time() - begun < 5 * SECONDS  # it takes 3.3 s, and 4.4 s on a busy machine


def test_a_pattern_that_is_not_tried_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        assert schema_problems({"pattern": "(?<!once)x"}, "y") == []
    assert [each for each in caplog.messages if "(?<!once)x" in each] == [
        "the pattern '(?<!once)x' of a schema is not checked: it takes more than linear time here"
    ]


MULTIPLES: list[tuple[float, float, bool]] = [
    (0.01, 19.99, True),
    (0.01, 1.1, True),
    (0.1, 0.3, True),
    (0.01, 19.995, False),
    (0.01, 1e300, True),
    (1e-300, 1e300, True),
    (2, 10**400, True),
    (3, 10, False),
    (2.5, 10, True),
]


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(("step", "value", "fits"), MULTIPLES)
def test_multiples_are_those_of_the_numbers_as_they_are_written(step: float, value: float, fits: bool) -> None:
    assert (schema_problems({"multipleOf": step}, value) == []) is fits


FORMATS: dict[str, tuple[list[str], list[str]]] = {
    "date": (["2026-11-28"], ["tomorrow", "2026-13-01", "20261128", ""]),
    "date-time": (["2026-11-28T10:00:00Z", "2026-11-28t10:00:00.5+01:00", "2026-11-28T10:00"], ["2026-11-28", "now"]),
    "time": (["10:00:00Z", "10:00"], ["25:00", "ten"]),
    "email": (["ann@example.org"], ["ann"]),
    "uri": (["https://example.org/a?b", "urn:x:1"], ["example", "https://a b", "http://["]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000"], ["123"]),
    "ipv4": (["127.0.0.1"], ["127.0.0.256"]),
    "ipv6": (["::1"], ["1"]),
    "of nobody": (["anything"], []),
}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_checked_as_far_as_they_are_known(name: str) -> None:
    right, wrong = FORMATS[name]
    assert [schema_problems({"format": name}, each) for each in [*right, 5]] == [[] for _ in [*right, 5]]
    assert [schema_problems({"format": name}, each) for each in wrong] == [[said("$", f'format is "{name}"')]] * len(
        wrong
    )


ELSEWHERE: dict[str, Schema] = {
    "an address": {"$ref": "https://example.com/schema"},
    "a part that is not there": {"$ref": "#/$defs/nowhere"},
    "an anchor": {"$ref": "#here", "$defs": {"a": {"$anchor": "here", "type": "string"}}},
    "a dynamic anchor": {"$dynamicRef": "#here", "$defs": {"a": {"$dynamicAnchor": "here", "type": "string"}}},
    "a part with an address of its own": {"properties": {"x": {"$id": "urn:x", "type": "string"}}},
}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize("schema", ELSEWHERE.values(), ids=list(ELSEWHERE))
def test_a_schema_that_refers_elsewhere_refuses_nothing(schema: Schema) -> None:
    assert schema_problems(schema, {"x": 5}) == []


def test_a_schema_may_refer_to_its_own_parts() -> None:
    tree = {"properties": {"children": {"items": {"$ref": "#/$defs/tree"}}}, "required": ["name"]}
    schema = {"$id": "urn:tree", "$ref": "#/$defs/tree", "$defs": {"tree": tree}}
    assert schema_problems(schema, {"name": "a", "children": [{}]}) == [said("$.children[0]", 'needs "name"')]
    whole = {"properties": {"next": {"$ref": "#"}}, "required": ["name"]}
    assert schema_problems(whole, {"name": "a", "next": {}}) == [said("$.next", 'needs "name"')]


def test_defaults_complete_an_object_and_are_its_own() -> None:
    schema: Schema = {"properties": {"a": {"default": [1]}, "b": {"default": None}, "c": {}, "d": True}}
    first, second = with_defaults(schema, {"c": 3, "b": 2}), with_defaults(schema, {})
    assert (list(first.items()), second) == ([("c", 3), ("b", 2), ("a", [1])], {"a": [1], "b": None})
    first["a"].append(2)
    assert with_defaults(schema, {})["a"] == [1]
    assert with_defaults({"properties": 5}, {"x": 1}) == {"x": 1}


DEFAULTS: dict[str, tuple[Schema, Any, Any]] = {
    "null of a text": ({"properties": {"a": {"type": "string", "default": None}, "b": {"default": 1}}}, {}, {"b": 1}),
    "outside of the choices": ({"properties": {"a": {"enum": ["x"], "default": "y"}}}, {}, {}),
    "outside of the bounds": ({"properties": {"a": {"minimum": 3, "default": 0}}}, {}, {}),
    "without what it requires": ({"properties": {"a": {"type": "object", "required": ["b"], "default": {}}}}, {}, {}),
    "with what nothing names": (
        {"properties": {"a": {"additionalProperties": False, "default": {"b": 1}}}},
        {},
        {},
    ),
    "inside of what was sent": (
        {"properties": {"a": {"properties": {"b": {"default": 1}, "c": {"type": "string", "default": None}}}}},
        {"a": {"d": 2}},
        {"a": {"d": 2, "b": 1}},
    ),
    "of a definition": (
        {"properties": {"a": {"$ref": "#/$defs/a", "default": None}}, "$defs": {"a": {"type": "string"}}},
        {},
        {},
    ),
    "in a definition": (
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"properties": {"b": {"default": 1}}}}},
        {"a": {}},
        {"a": {"b": 1}},
    ),
    "more members than there may be": (
        {"maxProperties": 1, "properties": {"a": {}, "b": {"default": 1}}},
        {"a": 1},
        {"a": 1},
    ),
    "one alternative too many": (
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"b": {"default": 1}}},
        {"a": 1},
        {"a": 1},
    ),
    "many that do not fit": (
        {"properties": {f"p{each}": {"type": "string", "default": None} for each in range(100)}},
        {},
        {},
    ),
    "of a schema that is too large": (
        {"properties": {"a": {"type": "string", "default": None}}, "x": [0] * 2000},
        {},
        {},
    ),
}


@pytest.mark.requirement("INT-7", "SEC-2")
@pytest.mark.parametrize(("schema", "sent", "completed"), DEFAULTS.values(), ids=list(DEFAULTS))
def test_a_default_is_an_annotation_and_completes_what_was_sent_if_it_fits(
    schema: Schema, sent: Any, completed: Any
) -> None:

    def pay(**arguments: Any) -> None: ...

    call = FunctionTool[..., Any].from_schema("pay", pay, parameters=schema).bind(sent)
    assert (call.arguments, call.values) == (completed, completed)


UNIQUE: list[tuple[Any, bool]] = [
    ([{"a": each} for each in range(3000)], True),
    ([*({"a": each} for each in range(3000)), {"a": 7}], False),
    ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
    ([1, True, "1", None, [], {}], True),
    ([[1], [1]], False),
    ("aa", True),
]


@pytest.mark.parametrize(("answer", "fits"), UNIQUE, ids=lambda value: repr(value)[:30])
def test_items_are_compared_in_one_go(answer: Any, fits: bool) -> None:
    begun = thread_time()
    assert schema_problems({"uniqueItems": True}, answer) == ([] if fits else [said("$", "uniqueItems is true")])
    assert schema_problems({"uniqueItems": False}, answer) == []
    assert thread_time() - begun < SECONDS


SECRET = "s3cr3t"
TOLD: list[tuple[Schema, Any, str, str]] = [
    ({"type": ["integer", "null"]}, SECRET, "$", 'must be of type ["integer", "null"]'),
    ({"const": "é"}, SECRET, "$", 'must be "é"'),
    ({"enum": ["Q1", 2]}, SECRET, "$", 'must be one of ["Q1", 2]'),
    ({"maxLength": 3}, SECRET, "$", "maxLength is 3"),
    ({"not": {"type": "string"}}, SECRET, "$", 'not is {"type": "string"}'),
    ({"anyOf": [{"type": "null"}, {"maxLength": 1}]}, SECRET, "$", 'anyOf is [{"type": "null"}, {"maxLength": 1}]'),
    ({"oneOf": [{}, True]}, SECRET, "$", "oneOf is [{}, true]"),
    ({"properties": {"a": {"minimum": 3}}}, {"a": 2}, "$.a", "minimum is 3"),
    ({"properties": {"a": False}}, {"a": SECRET}, "$", "nothing may stand there"),
    ({"required": ["a", "b", "c"]}, {"b": SECRET}, "$", 'needs "a", "c"'),
    ({"dependentRequired": {"a": ["b"]}}, {"a": SECRET}, "$", 'dependentRequired is {"a": ["b"]}'),
    ({"additionalProperties": False}, {"a": SECRET}, "$.a", "the schema has no such member"),
    ({"additionalProperties": {"type": "null"}}, {"a": SECRET}, "$.a", 'must be of type "null"'),
    (
        {"properties": {"a": {}}, "additionalProperties": {"type": "null"}},
        {"a": 1, "b": SECRET},
        "$.b",
        'must be of type "null"',
    ),
    ({"items": {"type": "null"}}, [None, SECRET], "$[1]", 'must be of type "null"'),
    ({"prefixItems": [{}], "items": False}, [1, SECRET], "$", "items is false"),
    ({"contains": {"type": "null"}}, [SECRET], "$", 'contains is {"type": "null"}'),
    ({"$schema": DRAFT_7, "items": [{}], "additionalItems": False}, [1, SECRET], "$", "additionalItems is false"),
    ({"$schema": DRAFT_7, "dependencies": {"a": ["b"]}}, {"a": SECRET}, "$", 'dependencies is {"a": ["b"]}'),
]


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(("schema", "answer", "place", "limit"), TOLD, ids=lambda value: repr(value)[:40])
def test_a_problem_is_told_by_its_place_and_what_the_schema_says_there(
    schema: Schema, answer: Any, place: str, limit: str
) -> None:
    assert schema_problems(schema, answer) == [said(place, limit)]


def test_few_problems_are_told_and_each_in_short() -> None:
    schema = {"additionalProperties": {"enum": ["long" * 1000] * 100}}
    told = schema_problems(schema, {f"{each}" + "name" * 1000: SECRET for each in range(1000)})
    assert (len(told), max(map(len, told)) < 600) == (10, True)
    assert SECRET not in "".join(told)


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": []},
        {"required": "ab"},
        {"enum": {}},
        {"properties": {"a": {"minLength": "x"}}},
        {"unevaluatedItems": 5},
    ],
    ids=repr,
)
def test_what_is_no_schema_refuses_nothing(schema: Schema) -> None:
    assert schema_problems(schema, {"x": "y"}) == []
