"""Forms made from schemas that agents wrote: what is asked line by line, and what is not (INT-7)."""

from __future__ import annotations

import re
from time import thread_time
from typing import Any, TypeAlias

import pytest

from agui_client._rendering.form_dialog import FormDialog, LeftError
from agui_client._rendering.forms import AnswerForm, FormError, call_form, read_arguments

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
    assert (field.key, field.kind, field.choices, field.label) == ("", "json", (), "answer (JSON)")
    assert form.read({"": "7"} if "enum" in schema else {"": '{"x": {}}'}) == (7 if "enum" in schema else {"x": {}})
    assert thread_time() - begun < 2


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(
    "items", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"anyOf": [{"$ref": "#"}, {"type": "null"}]}]
)
def test_a_list_of_such_lists_is_filled_in_entry_by_entry(items: Schema) -> None:
    (field,) = AnswerForm({"type": "array", "items": items}).fields
    assert field.kind == "rows"


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
        ('{"a": 1e999}', "this is not JSON: a number is out of range"),
        ('{"a": NaN}', "this is not JSON: NaN is not a JSON number"),
        ('{"a":' * 50_000, "this is not JSON: it is nested too deeply"),
    ],
    ids=lambda value: value[:12],
)
def test_what_is_typed_as_json_is_json_that_can_be_sent(typed: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        AnswerForm({}).read({"": typed})
    with pytest.raises(ValueError, match=why):
        read_arguments(typed, None)


def test_a_number_out_of_range_is_none() -> None:
    with pytest.raises(ValueError, match="this is not a number"):
        AnswerForm({"type": "number"}).read({"": "1e999"})


def test_arguments_that_do_not_fit_are_told_by_their_place() -> None:
    schema = of({"path": TEXT, "lines": {"items": {"type": "integer"}}}, required=["mode"])
    said = "path: must be text; lines[1]: must be a whole number; mode: is missing"
    with pytest.raises(ValueError, match=re.escape(said)):
        read_arguments('{"path": 1, "lines": [1, "x"]}', schema)


def test_a_title_is_a_line() -> None:
    (field,) = AnswerForm(of({"a": {**TEXT, "title": "t" * 1000}})).fields
    assert field.title == "t" * 200


def test_two_uses_of_a_definition_are_told_apart_by_their_names() -> None:
    place, reference = of({"code": TEXT}, title="Place"), {"$ref": "#/$defs/place"}
    uses: dict[str, Schema] = {
        "ship_to": reference,
        "bill_to": {"anyOf": [reference, {"type": "null"}]},
        "from": {"allOf": [reference]},
        "seen": {**reference, "title": "Seen at"},
        "left": {"anyOf": [{**TEXT, "title": "Left at"}, {"type": "null"}]},
    }
    fields = AnswerForm(of(uses, **{"$defs": {"place": place}})).fields
    assert [each.title for each in fields] == ["ship_to", "bill_to", "from", "Seen at", "Left at"]


def test_variants_without_titles_are_told_apart_by_their_members() -> None:
    ways = [{"properties": {"mail": TEXT}}, of({"phone": TEXT, "sms": {"type": "boolean"}}), {"type": "integer"}]
    assert [each.title for each in AnswerForm({"oneOf": ways}).root.fields] == ["mail", "phone, sms", "a whole number"]


def test_bounds_that_pydantic_writes_as_fractions_are_whole_numbers_in_words() -> None:
    form = AnswerForm({"type": "number", "exclusiveMinimum": 0.0, "maximum": 0.5})
    assert form.fields[0].bounds == "more than 0, at most 0.5"
    with pytest.raises(FormError, match=r"must be more than 0$"):
        form.read({"": "0"})


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
    assert [leaf.label for each in AnswerForm(TRIP).fields for leaf in (each.fields or [each])] == [
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
        "/meals": "entry 2: this is none of the 2 choices",
        "/stops": "entry 2: this is not a whole number",
        "/cabin": "this is none of the 2 choices",
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
    assert [each.text for each in form.fields] == ["", "B"]
    assert form.read({"/a": "", "/b": "B"}) == {"b": "B"}


def test_choices_under_one_title_are_told_apart_by_their_values() -> None:
    (field,) = AnswerForm({"enum": ["yes", "no"], "enumNames": ["Yes", "Yes"]}).fields
    assert field.choice_titles == ["yes", "no"]


# --- values with fields of their own


PASSENGER = of({"name": TEXT, "age": {"type": "integer", "minimum": 0}}, required=["name"])
CARD = of({"kind": {"const": "card"}, "number": {**TEXT, "pattern": "^[0-9]{4}$"}}, required=["kind", "number"])
IBAN = of({"kind": {"const": "iban"}, "iban": TEXT}, required=["kind", "iban"])
NODE = of({"name": TEXT, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, required=["name"])
MONEY = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}
REALISTIC: dict[str, tuple[Schema, dict[str, str], Any]] = {
    "a list of groups": (
        of({"who": {"type": "array", "items": PASSENGER, "minItems": 1}}, required=["who"]),
        {"/who": "0,2", "/who/0/name": "Ann", "/who/2/name": "Bob", "/who/2/age": "7"},
        {"who": [{"name": "Ann"}, {"name": "Bob", "age": 7}]},
    ),
    "a list of lists": (
        of({"grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}}),
        {"/grid": "0,1", "/grid/0": "1, 2", "/grid/1": "3"},
        {"grid": [[1, 2], [3]]},
    ),
    "one of several": (
        of({"pay": {"oneOf": [CARD, IBAN]}}, required=["pay"]),
        {"?/pay": "1", "/pay/iban": "NO93"},
        {"pay": {"kind": "iban", "iban": "NO93"}},
    ),
    "a number or a word": (
        of({"size": {"anyOf": [{"const": "auto"}, {"type": "integer"}]}}),
        {"?/size": "0"},
        {"size": "auto"},
    ),
    "several types": (of({"id": {"type": ["integer", "string"]}}), {"?/id": "1", "/id": "x7"}, {"id": "x7"}),
    "any names": (
        of({"env": {"type": "object", "additionalProperties": {"type": "integer"}}}),
        {"/env": "0,1", "?/env/0": "PORT", "/env/0": "80", "?/env/1": "A/B", "/env/1": "2"},
        {"env": {"PORT": 80, "A/B": 2}},
    ),
    "four deep": (
        deep(4),
        {"/x": "yes", "/x/x": "yes", "/x/x/x": "yes", "/x/x/x/x": "end"},
        {"x": {"x": {"x": {"x": "end"}}}},
    ),
    "a tree": (
        {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
        {
            "/name": "a",
            "/children": "0",
            "/children/0/name": "b",
            "/children/0/children": "0",
            "/children/0/children/0/name": "c",
        },
        {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]},
    ),
    "a pair": (
        of(
            {"at": {"type": "array", "prefixItems": [{"type": "number"}, TEXT], "minItems": 2, "maxItems": 2}},
            required=["at"],
        ),
        {"/at/0": "1.5", "/at/1": "km"},
        {"at": [1.5, "km"]},
    ),
    "money": (
        of({"a": MONEY, "b": MONEY}),
        {"/a": "129.90", "/b": "12345678901234567890.12"},
        {"a": 129.9, "b": "12345678901234567890.12"},
    ),
    "all of": (
        {"allOf": [of({"a": TEXT}, required=["a"]), of({"b": {"type": "boolean"}})]},
        {"/a": "x", "/b": "no"},
        {"a": "x", "b": False},
    ),
    "an optional group": (of({"home": PASSENGER, "n": {"type": "integer"}}), {"/home": "", "/n": "1"}, {"n": 1}),
    "consent": (of({"terms": {"const": True}}, required=["terms"]), {"/terms": "yes"}, {"terms": True}),
    "a choice in small letters": (
        of({"currency": {"enum": ["NOK", "SEK"]}}),
        {"/currency": "nok"},
        {"currency": "NOK"},
    ),
    "contacts": (
        of({"mails": {"type": "array", "items": {**TEXT, "format": "email"}}, "id": {**TEXT, "format": "uuid"}}),
        {"/mails": "ann@example.org, bob@example.org", "/id": "123E4567-E89B-12D3-A456-426614174000"},
        {"mails": ["ann@example.org", "bob@example.org"], "id": "123e4567-e89b-12d3-a456-426614174000"},
    ),
}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(("schema", "typed", "answer"), REALISTIC.values(), ids=list(REALISTIC))
def test_realistic_answers_are_typed_without_json_and_stand_in_the_form_of_a_call(
    schema: Schema, typed: dict[str, str], answer: Any
) -> None:
    form = AnswerForm(schema)
    assert not any(field.kind == "json" for field in form.fields)
    assert form.read(typed) == answer
    of_call = call_form(schema, answer)
    assert of_call is not None
    assert of_call.read(of_call.texts) == answer


MISTAKES: dict[str, tuple[Schema, dict[str, str], dict[str, str]]] = {
    "in an entry": (
        REALISTIC["a list of groups"][0],
        {"/who": "0,5", "/who/0/name": "Ann", "/who/5/age": "-1"},
        {"/who/5/name": "this cannot be left out", "/who/5/age": "must be at least 0"},
    ),
    "too few": (REALISTIC["a list of groups"][0], {"/who": ""}, {"/who": "this cannot be left out"}),
    "in a variant": (
        of({"pay": {"oneOf": [CARD, IBAN]}}, required=["pay"]),
        {"?/pay": "0", "/pay/number": "12"},
        {"/pay/number": "must match ^[0-9]{4}$"},
    ),
    "no variant": (
        of({"pay": {"oneOf": [CARD, IBAN]}}, required=["pay"]),
        {"?/pay": ""},
        {"/pay": "this cannot be left out"},
    ),
    "names of a map": (
        REALISTIC["any names"][0],
        {"/env": "0,1,2", "?/env/0": "A", "/env/0": "1", "?/env/1": "A", "/env/1": "2", "?/env/2": "", "/env/2": "3"},
        {"/env/1": "this name is there twice", "/env/2": "the name cannot be left out"},
    ),
    "found by the whole": (
        of({"who": {"type": "array", "items": PASSENGER, "uniqueItems": True}}),
        {"/who": "0,1", "/who/0/name": "Ann", "/who/1/name": "Ann"},
        {"/who": "must not have an entry twice"},
    ),
    "a decimal comma": (
        of({"a": MONEY, "b": {"type": "number"}, "c": {"type": "integer"}}),
        {"/a": "129,90", "/b": "1.234,50", "/c": "1 290"},
        {
            "/a": "write the number with a point, and nothing between thousands, such as 129.90",
            "/b": "write the number with a point, and nothing between thousands, such as 129.90",
            "/c": "write the number with a point, and nothing between thousands, such as 1290",
        },
    ),
    "more digits than a number has": (
        of({"a": {"type": "number"}}),
        {"/a": "0.12345678901234567890"},
        {"/a": "this number has too many digits: it would become 0.12345678901234568"},
    ),
    "no consent": (of({"terms": {"const": True}}), {"/terms": "no"}, {"/terms": "must be yes"}),
    "a pattern with a description": (
        of({"plate": {**TEXT, "pattern": "^[A-Z]{2}$", "description": "Two capital letters"}}),
        {"/plate": "ab"},
        {"/plate": "does not have the form that is asked for: Two capital letters"},
    ),
    "formats": (
        of({name: {**TEXT, "format": name} for name in ("uuid", "ipv4", "ipv6", "duration", "hostname")}),
        {"/uuid": "12", "/ipv4": "1.2.3", "/ipv6": "::g", "/duration": "P", "/hostname": "a b"},
        {
            "/uuid": "this is no UUID, such as 123e4567-e89b-12d3-a456-426614174000",
            "/ipv4": "this is no IPv4 address, such as 192.0.2.1",
            "/ipv6": "this is no IPv6 address, such as 2001:db8::1",
            "/duration": "this is no duration, such as P1DT12H",
            "/hostname": "this is no host name, such as example.org",
        },
    ),
    "mails in a list": (
        of({"mails": {"type": "array", "items": {**TEXT, "format": "email"}}}),
        {"/mails": "ann@example.org, bob"},
        {"/mails": "entry 2: this is no e-mail address, such as ann@example.org"},
    ),
}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(("schema", "typed", "problems"), MISTAKES.values(), ids=list(MISTAKES))
def test_each_mistake_is_named_at_its_field_in_words(
    schema: Schema, typed: dict[str, str], problems: dict[str, str]
) -> None:
    with pytest.raises(FormError) as caught:
        AnswerForm(schema).read(typed)
    assert caught.value.problems == problems


def test_a_problem_in_an_entry_says_which() -> None:
    with pytest.raises(FormError, match="who 2 · name: this cannot be left out"):
        AnswerForm(REALISTIC["a list of groups"][0]).read({"/who": "0,1", "/who/0/name": "Ann"})


@pytest.mark.requirement("SEC-3")
def test_the_form_of_a_call_keeps_what_nobody_changed_to_the_last_digit() -> None:
    schema = of(
        {
            "a": {"type": "number"},
            "at": {**TEXT, "format": "date-time"},
            "note": TEXT,
            "gone": {"type": ["string", "null"]},
            "tags": {"type": "array", "items": TEXT},
            "meals": {"type": "array", "items": {"enum": ["a", "b"]}},
            "on": {"type": "boolean"},
        }
    )
    arguments = {
        "a": 1e-7,
        "at": "2026-11-24T14:30:15.5Z",
        "note": "",
        "gone": None,
        "tags": ["x, y", "z"],
        "meals": ["b", "a"],
    }
    form = call_form(schema, arguments)
    assert form is not None
    assert form.read(form.texts) == arguments
    assert form.read({**form.texts, "/note": "x"}) == {**arguments, "note": "x"}


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("arguments", [{"a": "x\u202e"}, {"a": "  \r"}, {}], ids=["hidden", "blank", "missing"])
def test_a_call_that_a_form_would_not_show_as_it_is_has_none(arguments: dict[str, Any]) -> None:
    assert call_form(of({"a": TEXT}, required=["a"]), arguments) is None


@pytest.mark.requirement("SEC-3")
def test_an_argument_that_the_schema_does_not_name_stays_in_the_call() -> None:
    form = call_form(of({"a": TEXT}), {"unnamed": [1], "a": "x"})
    assert form is not None
    assert form.kept == {"unnamed": [1]}
    assert form.read({"/a": "y"}) == {"unnamed": [1], "a": "y"}
    assert call_form(of({"a": TEXT}, additionalProperties=False), {"unnamed": [1], "a": "x"}) is None


def test_what_is_read_only_and_what_is_fixed_stay_as_they_are() -> None:
    schema = of({"ref": {**TEXT, "readOnly": True, "default": "R-1"}, "kind": {"const": "x", "default": "x"}})
    assert AnswerForm(schema).read({"/ref": "R-2", "/kind": "y"}) == {"ref": "R-1", "kind": "x"}


def test_a_field_carries_no_definition_that_it_does_not_refer_to() -> None:
    schema = of({"a": TEXT, "tree": {"$ref": "#/$defs/node"}}, **{"$defs": {"node": NODE}})
    assert ["$defs" in each.schema for each in AnswerForm(schema).fields] == [False, True]


def test_a_label_has_the_unit_and_the_bounds() -> None:
    (field,) = AnswerForm(of({"price": {"type": "number", "unit": "NOK", "maximum": 500}}, required=["price"])).fields
    assert field.label == "price (number, NOK, at most 500)"


# --- line by line


DIALOGUES: dict[str, tuple[Schema, list[str], Any]] = {
    "a list of groups": (
        REALISTIC["a list of groups"][0],
        ["Ann", "", "y", "Bob", "many", "7", "n"],
        {"who": [{"name": "Ann"}, {"name": "Bob", "age": 7}]},
    ),
    "one of several": (
        REALISTIC["one of several"][0],
        ["neither", "2", "NO93"],
        {"pay": {"kind": "iban", "iban": "NO93"}},
    ),
    "any names": (REALISTIC["any names"][0], ["y", "PORT", "80", "no"], {"env": {"PORT": 80}}),
    "a tree": (REALISTIC["a tree"][0], ["a", "y", "b", "", ""], {"name": "a", "children": [{"name": "b"}]}),
    "four deep": (deep(3), ["y", "y", "end"], {"x": {"x": {"x": "end"}}}),
    "what may be empty": (of({"pay": {"oneOf": [CARD, IBAN]}}), [""], {}),
}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(("schema", "lines", "answer"), DIALOGUES.values(), ids=list(DIALOGUES))
def test_the_same_forms_are_filled_in_line_by_line(schema: Schema, lines: list[str], answer: Any) -> None:
    typed = iter(lines)
    assert FormDialog(AnswerForm(schema), lambda prompt, begins: next(typed), lambda text: None).fill() == answer
    assert [*typed] == []


def test_a_line_that_was_refused_is_there_to_be_corrected() -> None:
    begun: list[str] = []

    def read(prompt: str, begins: str) -> str:
        begun.append(begins)
        return begins.replace("x", "") if begins else "1x2"

    assert FormDialog(AnswerForm(of({"n": {"type": "integer"}})), read, begun.append).fill() == {"n": 12}
    assert begun == ["", "this is not a whole number", "1x2"]


def test_an_empty_line_where_something_is_needed_leaves_the_form() -> None:
    with pytest.raises(LeftError):
        FormDialog(AnswerForm(REALISTIC["one of several"][0]), lambda prompt, begins: "", lambda text: None).fill()
