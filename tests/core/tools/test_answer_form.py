"""Forms made from schemas that agents wrote: what is asked line by line, and what is not (INT-7)."""

from __future__ import annotations

import re
from time import thread_time
from typing import Any, TypeAlias

import pytest

from agui_client._rendering.forms import AnswerForm, FormError, read_arguments

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
    assert form.read({"": "7"} if "enum" in schema else {"": '{"x": {}}'}) == (7 if "enum" in schema else {"x": {}})
    assert thread_time() - begun < 2


@pytest.mark.requirement("INT-7")
def test_as_many_properties_as_somebody_fills_in_are_lines() -> None:
    assert {field.kind for field in AnswerForm(of({f"p{each}": TEXT for each in range(50)})).fields} == {"string"}


def test_a_property_without_a_name_is_a_property() -> None:
    assert AnswerForm(of({"": TEXT})).read({"/": "x"}) == {"": "x"}


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
    said = "path: must be text; lines[1]: must be a whole number; mode: is missing"
    with pytest.raises(ValueError, match=re.escape(said)):
        read_arguments('{"path": 1, "lines": [1, "x"]}', schema)


def test_a_title_is_a_line() -> None:
    (field,) = AnswerForm(of({"a": {**TEXT, "title": "t" * 1000}})).fields
    assert field.title == "t" * 200


TRIP = of(
    {
        "seats": {"type": "integer", "minimum": 2, "maximum": 6},
        "budget": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]},
        "code": {**TEXT, "minLength": 3, "maxLength": 5},
        "day": {**TEXT, "format": "date"},
        "meals": {"type": "array", "items": {"enum": ["vegan", "halal, kosher"]}, "maxItems": 1},
        "stops": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
        "cabin": {"oneOf": [{"const": "e", "title": "Economy"}, {"const": "b", "title": "Business"}]},
        "address": {"$ref": "#/$defs/address"},
        "extra": of({"note": TEXT, "count": {"type": "integer"}}, required=["note"]),
    },
    required=["seats", "code", "meals", "stops", "address"],
    **{"$defs": {"address": of({"street": TEXT, "zip": {**TEXT, "maxLength": 5}}, required=["street"])}},
)
FITTING = {
    "/seats": "4",
    "/code": "abc",
    "/day": "2026-02-28",
    "/meals": '["halal, kosher"]',
    "/stops": "3, 4",
    "/cabin": "Business",
    "/address/street": "Main St",
}


@pytest.mark.requirement("INT-7")
def test_lists_choices_and_groups_are_fields_of_their_own() -> None:
    assert AnswerForm(TRIP).read(FITTING) == {
        "seats": 4,
        "code": "abc",
        "day": "2026-02-28",
        "meals": ["halal, kosher"],
        "stops": [3, 4],
        "cabin": "b",
        "address": {"street": "Main St"},
    }


def test_labels_say_the_bounds_and_what_may_be_empty() -> None:
    assert [field.label for field in AnswerForm(TRIP).leaves] == [
        "seats (whole number, 2 to 6)",
        "budget (number, more than 0, may be empty)",
        "code (3 to 5 characters)",
        "day (date, such as 2026-11-24, may be empty)",
        "meals (some of these, separated by commas, at most 1 choice, may be empty)",
        "stops (separated by commas)",
        "cabin (may be empty)",
        "street",
        "zip (at most 5 characters, may be empty)",
        "note",
        "count (whole number, may be empty)",
    ]


WRONG = {
    "/seats": "9",
    "/budget": "0",
    "/code": "ab",
    "/day": "2026-02-30",
    "/meals": "vegan, tofu",
    "/stops": "1, x",
    "/cabin": "First",
    "/address/zip": "123456",
    "/extra/count": "1",
}


@pytest.mark.requirement("INT-7")
def test_all_problems_are_told_at_once_each_at_its_field_in_words() -> None:
    with pytest.raises(FormError) as caught:
        AnswerForm(TRIP).read(WRONG)
    assert caught.value.problems == {
        "/seats": "must be at most 6",
        "/budget": "must be more than 0",
        "/code": "needs at least 3 characters",
        "/day": "this is no date, such as 2026-11-24",
        "/meals": "entry 2: choose one of 1 to 2",
        "/stops": "entry 2: this is no whole number",
        "/cabin": "choose one of 1 to 2",
        "/address/street": "this cannot be left out",
        "/address/zip": "may have at most 5 characters",
        "/extra/note": "this cannot be left out",
    }
    assert str(caught.value).startswith("seats: must be at most 6; budget: must be more than 0; ")


def test_a_problem_between_fields_is_about_the_answer_or_the_field_that_it_names() -> None:
    pair = of(
        {"a": TEXT, "b": TEXT},
        dependentRequired={"a": ["b"]},
        **{"if": {"required": ["a"]}, "then": {"required": ["b"]}},
    )
    with pytest.raises(FormError) as caught:
        AnswerForm(pair).read({"/a": "x"})
    assert caught.value.problems == {"": "is incomplete: with a, b is needed", "/b": "is missing"}


FORMATS = [
    ("date", "24.11.2026", "this is no date, such as 2026-11-24"),
    ("date", "2026-11-24", "2026-11-24"),
    ("time", "25:00", "this is no time, such as 14:30"),
    ("time", "14:30", "14:30:00"),
    ("date-time", "soon", "this is no date and time, such as 2026-11-24 14:30"),
    ("date-time", "2026-11-24 14:30+01:00", "2026-11-24T14:30:00+01:00"),
    ("email", "ann at example", "this is no e-mail address, such as ann@example.org"),
    ("email", "ann@example.org", "ann@example.org"),
    ("uri", "example", "this is no address, such as https://example.org"),
    ("uri", "https://example.org/a?b", "https://example.org/a?b"),
    ("color", "whatever", "whatever"),
]


@pytest.mark.parametrize(("name", "typed", "told"), FORMATS, ids=lambda value: value)
def test_a_text_has_the_format_of_its_schema(name: str, typed: str, told: str) -> None:
    try:
        read = AnswerForm({**TEXT, "format": name}).read({"": typed})
    except FormError as error:
        read = str(error)
    assert read == told


@pytest.mark.parametrize(("pattern", "is_tried"), [("^[A-Z]{3}$", True), ("^(?=[A-Z]{3}$)", False)])
def test_a_pattern_is_shown_and_tried_if_that_takes_linear_time(pattern: str, is_tried: bool) -> None:
    form = AnswerForm(of({"code": {**TEXT, "pattern": pattern}}, required=["code"]))
    assert [each.label for each in form.fields] == [f"code (matching {pattern})"]
    assert form.read({"/code": "OSL"}) == {"code": "OSL"}
    if is_tried:
        with pytest.raises(FormError, match=re.escape(f"code: must match {pattern}")):
            form.read({"/code": "oslo"})
    else:
        assert form.read({"/code": "oslo"}) == {"code": "oslo"}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(
    "unfit", [{**TEXT, "default": 5}, {"enum": ["a"], "default": "b"}, {"type": "integer", "minimum": 3, "default": 0}]
)
def test_a_default_that_does_not_fit_stands_in_no_field(unfit: Schema) -> None:
    form = AnswerForm(of({"a": unfit, "b": {**TEXT, "default": "B"}}))
    assert [each.default for each in form.fields] == ["", "B"]
    assert form.read({"/a": "", "/b": "B"}) == {"b": "B"}


def test_choices_under_one_title_are_told_apart_by_their_values() -> None:
    (field,) = AnswerForm({"enum": ["yes", "no"], "enumNames": ["Yes", "Yes"]}).fields
    assert field.choice_titles == ["yes", "no"]
