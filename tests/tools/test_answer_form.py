"""Forms made from schemas that agents wrote: what is asked line by line, and what is not (INT-7)."""

from __future__ import annotations

import re
from time import thread_time
from typing import Any, TypeAlias

import pytest

from agui_client._widgets.forms import AnswerForm, read_arguments

Schema: TypeAlias = dict[str, Any]

TEXT = {"type": "string"}


def of(properties: Schema, **more: Any) -> Schema:
    return {"type": "object", "properties": properties, **more}


def deep(levels: int) -> Schema:
    schema: Schema = TEXT
    for _ in range(levels):
        schema = of({"x": schema})
    return schema


DEFINITIONS = {
    f"d{level}": of({"a": {"$ref": f"#/$defs/d{level + 1}"}, "b": {"$ref": f"#/$defs/d{level + 1}"}})
    for level in range(30)
}
HUGE: dict[str, Schema] = {
    "many properties": of({f"p{each}": TEXT for each in range(10_000)}),
    "more properties than anybody fills in": of({f"p{each}": TEXT for each in range(51)}),
    "many choices": {"enum": list(range(10_000))},
    "many choices in a property": of({"a": {"enum": list(range(10_000))}}),
    "large definitions": of({"a": TEXT}, **{"$defs": {f"d{each}": TEXT for each in range(1000)}}),
    "references that double": of({"a": {"$ref": "#/$defs/d0"}}, **{"$defs": DEFINITIONS}),
    "without an end": deep(3000),
}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize("schema", HUGE.values(), ids=list(HUGE))
def test_a_schema_larger_than_anybody_fills_in_is_asked_for_as_json(schema: Schema) -> None:
    begun = thread_time()
    form = AnswerForm(schema)
    (field,) = form.fields
    assert (field.name, field.kind, field.choices, field.label) == ("", "json", (), "answer (JSON)")
    assert form.payload(form.read({"": "7"} if "enum" in schema else {"": '{"x": {}}'})) == (
        7 if "enum" in schema else {"x": {}}
    )
    assert thread_time() - begun < 2


@pytest.mark.requirement("INT-7")
def test_as_many_properties_as_somebody_fills_in_are_lines() -> None:
    assert {field.kind for field in AnswerForm(of({f"p{each}": TEXT for each in range(50)})).fields} == {"string"}


def test_a_property_without_a_name_is_a_property() -> None:
    form = AnswerForm(of({"": TEXT}))
    payload = form.payload(form.read({"": "x"}))
    assert (payload, form.problems(payload)) == ({"": "x"}, [])


NULLABLE: list[tuple[Schema, bool]] = [
    (TEXT, False),
    ({"type": ["string", "null"]}, True),
    ({"anyOf": [TEXT, {"type": "null"}]}, True),
    ({"oneOf": [{"$ref": "#/$defs/text"}, {"type": "null"}]}, True),
    ({"anyOf": [TEXT]}, False),
    ({"enum": ["a", None]}, True),
    ({"type": ["string", "null"], "enum": ["a"]}, False),
    ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, True),
    ({"$ref": "#/$defs/maybe"}, True),
]


@pytest.mark.parametrize(("schema", "takes_null"), NULLABLE, ids=repr)
def test_a_field_that_takes_null_may_be_left_empty(schema: Schema, takes_null: bool) -> None:
    definitions = {"text": TEXT, "maybe": {"type": ["string", "null"]}}
    (field,) = AnswerForm(of({"a": schema}, required=["a"], **{"$defs": definitions})).fields
    assert field.label == ("a (may be empty)" if takes_null else "a")
    if takes_null:
        assert field.read_line("") is None
    else:
        with pytest.raises(ValueError, match="this cannot be left out"):
            field.read_line("")


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ('{"a": 1e999}', "this is no JSON: a number is out of range"),
        ('{"a": NaN}', "this is no JSON: NaN is no number of JSON's"),
        ('{"a":' * 50_000, "this is no JSON: it is nested too deeply"),
    ],
    ids=lambda value: value[:12],
)
def test_what_is_typed_as_json_is_json_that_can_be_sent(typed: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        AnswerForm({}).read({"": typed})
    with pytest.raises(ValueError, match=why):
        read_arguments(typed, None)


def test_a_number_out_of_range_is_none() -> None:
    with pytest.raises(ValueError, match="this is no number"):
        AnswerForm({"type": "number"}).read({"": "1e999"})


def test_arguments_that_do_not_fit_are_told_by_their_place() -> None:
    schema = of({"path": TEXT, "lines": {"items": {"type": "integer"}}}, required=["mode"])
    said = 'path: type is "string"; lines[1]: type is "integer"; required is ["mode"]'
    with pytest.raises(ValueError, match=re.escape(said)):
        read_arguments('{"path": 1, "lines": [1, "x"]}', schema)


def test_a_title_is_a_line() -> None:
    (field,) = AnswerForm(of({"a": {**TEXT, "title": "t" * 1000}})).fields
    assert field.title == "t" * 200
