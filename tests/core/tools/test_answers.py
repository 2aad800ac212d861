"""Answers in Python: models made from a `responseSchema`, models and dataclasses as payloads, decisions (INT-7)."""

from __future__ import annotations

import builtins
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from time import thread_time
from typing import Any, TypeAlias

import pytest
from ag_ui.core import Interrupt, ResumeEntry, RunFinishedInterruptOutcome
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from agui_client import Approve, Cancel, Deny, InterruptsNotCoveredError, Resolve, UsageError, answer_model
from agui_client._core.tools.approval import DENIED
from agui_client._core.tools.interrupts import cover
from agui_client.testing import Reply, ScriptedAgent, serve_bytes, text, turn
from agui_client.types import Answer
from support.verbs import Verb, every_kind_of_verb

Schema: TypeAlias = dict[str, Any]

TEXT = {"type": "string"}
FILING: Schema = {
    "type": "object",
    "properties": {
        "quarter": {"type": "string", "enum": ["Q1", "Q2", "Q3", "Q4"], "description": "The quarter filed for."},
        "year": {"type": "integer", "minimum": 2000},
        "note": {"type": "string", "maxLength": 20},
        "copies": {"type": "integer", "default": 1},
    },
    "required": ["quarter", "year"],
}
APPROVAL: Schema = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}, "reason": TEXT},
    "required": ["approved"],
}
"""What pydantic-ai's adapter asks for."""


def asked(schema: Schema | None = None, *, reason: str = "tool_call", expires_at: str | None = None) -> Interrupt:
    return Interrupt(id="i1", reason=reason, response_schema=schema, expires_at=expires_at)


def sent(question: Interrupt, answer: Answer, verb: Verb | None = None) -> Any:
    """What an agent that asked this is resumed with: the one entry, as JSON."""
    outcome = RunFinishedInterruptOutcome(interrupts=[question])
    agent = ScriptedAgent(turn(outcome=outcome), turn(text("Done.")))
    agent.run_agent_sync("Pay")
    if verb is None:
        agent.run_agent_sync(resume={question.id: answer})
    else:
        assert verb(agent, resume={question.id: answer}).error is None
    (entry,) = agent.inputs[-1].resume or []
    return entry.model_dump(by_alias=True, exclude_none=True)


def payload(question: Interrupt, answer: Answer) -> Any:
    entry = sent(question, answer)
    assert entry["status"] == "resolved"
    return entry.get("payload")


def refusal(question: Interrupt, answer: Any) -> str:
    with pytest.raises(InterruptsNotCoveredError) as refused:
        sent(question, answer)
    assert str(refused.value).startswith("nothing was sent: ")
    return str(refused.value)


def model_of(schema: Schema) -> type[BaseModel]:
    model = answer_model(asked(schema))
    assert model is not None
    return model


# --- models made from the schema


@every_kind_of_verb
@pytest.mark.requirement("INT-7")
def test_a_model_made_from_the_schema_is_filled_in_and_sent(verb: Verb) -> None:
    question = asked(FILING)
    model = answer_model(question)
    assert model is not None
    answer = model(quarter="Q1", year=2026)
    assert sent(question, Resolve(answer), verb)["payload"] == {"quarter": "Q1", "year": 2026, "copies": 1}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(
    "answer",
    [
        {"quarter": "Q5", "year": 2026},
        {"quarter": "Q1", "year": 1999},
        {"quarter": "Q1"},
        {"quarter": "Q1", "year": "x"},
    ],
    ids=repr,
)
def test_a_model_made_from_the_schema_refuses_what_does_not_fit(answer: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model_of(FILING).model_validate(answer)


def test_the_fields_of_a_model_tell_a_form_what_it_needs() -> None:
    fields = model_of(FILING).model_fields
    assert {name: field.is_required() for name, field in fields.items()} == {
        "quarter": True,
        "year": True,
        "note": False,
        "copies": False,
    }
    assert (fields["quarter"].description, fields["copies"].default) == ("The quarter filed for.", 1)


FIELDS: list[tuple[Any, Any, Any]] = [
    ({"type": "string", "maxLength": 2}, "ab", "abc"),
    ({"type": ["string", "null"]}, None, 7),
    ({"type": ["integer", "null"], "default": None, "minimum": 1}, 1, 0),
    ({"anyOf": [TEXT, {"type": "null"}]}, None, 7),
    ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, True, "x"),
    ({"anyOf": [{"type": ["integer", "null"]}, {"type": "array", "items": {"type": ["string", "null"]}}]}, [None], [7]),
    ({"enum": [1, "a", None]}, None, "b"),
    ({"type": ["string", "null"], "enum": ["a", None]}, None, "b"),
    ({"const": 3}, 3, 4),
    ({"type": "array", "items": TEXT, "maxItems": 2, "uniqueItems": True}, ["b", "a"], ["a", "b", "c"]),
    ({"type": "array", "items": {"type": "object", "properties": {"x": TEXT}}}, [{"x": "a"}], [{"x": 1}]),
    ({"type": "object", "properties": {"x": TEXT}, "required": ["x"]}, {"x": "a", "y": 1}, {}),
    ({"type": "object", "properties": {"x": TEXT}, "additionalProperties": False}, {"x": "a"}, {"y": 1}),
    ({"type": "object", "additionalProperties": {"type": ["integer", "null"]}}, {"a": 1, "b": None}, {"a": "x"}),
    ({"allOf": [{"type": "integer"}, {"minimum": 2}]}, 3, "x"),
    ({"not": TEXT}, 1, "a"),
    (True, {"anything": []}, None),
    ({}, [1], None),
    ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z", 1),
    ({"type": "string", "format": "uri"}, "https://example.com", 1),
]
"""A field's schema, what it takes, and what it does not take; None for the last if it takes anything."""


@pytest.mark.parametrize(("schema", "fits", "does_not"), FIELDS, ids=repr)
def test_a_field_takes_what_its_schema_takes_and_is_sent_as_it_was_given(schema: Any, fits: Any, does_not: Any) -> None:
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
    whole = {"type": "object", "properties": {"a": schema}, "required": ["a"], "$defs": {"Tree": tree}}
    model = model_of(whole)
    assert payload(asked(whole), Resolve(model.model_validate({"a": fits}))) == {"a": fits}
    if does_not is not None:
        with pytest.raises(ValidationError):
            model.model_validate({"a": does_not})


def test_a_field_may_have_any_name() -> None:
    names = ["my-field", "class", "json", "copy", "model_config", "_hidden", "__base__", "ß", ""]
    schema = {"type": "object", "properties": dict.fromkeys(names, TEXT), "required": names}
    given = dict.fromkeys(names, "x")
    assert payload(asked(schema), Resolve(model_of(schema)(**given))) == given


def test_a_schema_that_only_refers_to_an_object_has_its_model() -> None:
    model = model_of({"$ref": "#/$defs/Filing", "$defs": {"Filing": FILING}})
    assert list(model.model_fields) == ["quarter", "year", "note", "copies"]


def test_what_the_model_does_not_judge_is_judged_when_it_is_sent() -> None:
    schema = {**FILING, "dependentRequired": {"note": ["author"]}}
    answer = model_of(schema)(quarter="Q1", year=2026, note="late")
    assert 'at $: dependentRequired is {"note": ["author"]}' in refusal(asked(schema), Resolve(answer))


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"type": "boolean"},
        {"type": "array", "items": FILING},
        {"type": 7},
        {"type": "object", "properties": [1]},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema"}}},
        {"type": "object", "properties": {"a": {"$ref": 7}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/Nowhere"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a/b"}}, "$defs": {"a/b": TEXT}},
        {"type": "object", "properties": {"a": {"$ref": "#/definitions/a"}}, "$defs": {"a": TEXT}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/0"}}, "$defs": [1]},
        {"$ref": "#/$defs/Tree", "$defs": {"Tree": {"type": "object", "properties": {"a": {"$ref": "#/$defs/Tree"}}}}},
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": "x"}}},
        {"type": "object", "title": 7, "properties": {"a": TEXT}},
    ],
    ids=repr,
)
def test_where_no_model_can_be_made_there_is_none(schema: Schema | None) -> None:
    assert answer_model(asked(schema)) is None


def test_a_schema_without_an_end_has_no_model() -> None:
    schema: Schema = TEXT
    for _ in range(2_000):
        schema = {"type": "object", "properties": {"a": schema}}
    assert answer_model(asked(schema)) is None


def doubling(keyword: str) -> Schema:
    """An object with a property that is two of a kind that is two of a kind, and so on."""
    levels = range(16)
    both = [[{"$ref": f"#/$defs/{letter}{level + 1}"} for letter in "ab"] for level in levels]
    definitions = {f"{letter}{level}": {keyword: both[level]} for level in levels for letter in "ab"}
    ends = {f"{letter}16": TEXT for letter in "ab"}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": {**definitions, **ends}}


ENDLESS: dict[str, Schema] = {
    "alternatives that double": doubling("anyOf"),
    "conditions that double": doubling("allOf"),
    "properties without number": {"type": "object", "properties": {f"p{each}": TEXT for each in range(50_000)}},
    "choices without number": {"type": "object", "properties": {"a": {"type": "string", "enum": ["a"] * 50_000}}},
}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize("schema", ENDLESS.values(), ids=list(ENDLESS))
def test_a_schema_larger_than_anybody_answers_has_no_model(schema: Schema) -> None:
    begun = thread_time()
    assert answer_model(asked(schema)) is None
    assert thread_time() - begun < 1


@pytest.mark.parametrize("kinds", [["object", "object", "object"], ["object", "null", "array"]], ids=repr)
def test_types_that_are_nested_do_not_multiply(kinds: list[str]) -> None:
    schema: Schema = TEXT
    for _ in range(10):
        schema = {"type": kinds, "anyOf": [{"type": kinds, "properties": {"a": schema}}, {"type": "null"}]}
    begun = thread_time()
    model = model_of({"type": "object", "properties": {"a": schema}})
    model.model_validate({"a": {"a": {"a": None}}})
    assert thread_time() - begun < 2


@pytest.mark.parametrize("pattern", ["^B", "^(?=A)", "["])
def test_a_model_leaves_patterns_to_the_check_of_what_is_sent(pattern: str) -> None:
    schema = {"type": "object", "properties": {"a": {**TEXT, "pattern": pattern}, "pattern": TEXT}}
    answer = model_of(schema)(a="B", pattern="x")
    assert payload(asked(schema), Resolve(answer)) == {"a": "B", "pattern": "x"}
    if pattern == "^B":
        with pytest.raises(InterruptsNotCoveredError, match=r"at \$\.a: pattern is"):
            payload(asked(schema), Resolve(model_of(schema)(a="C", pattern="x")))


UNFIT: dict[str, Schema] = {
    "null of a text": {"type": "string", "default": None},
    "outside of the choices": {"type": "string", "enum": ["x"], "default": "y"},
    "outside of the bounds": {"type": "integer", "minimum": 3, "default": 0},
}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize("unfit", UNFIT.values(), ids=list(UNFIT))
def test_a_default_that_does_not_fit_is_not_sent_for_who_leaves_it_out(unfit: Schema) -> None:
    properties: Schema = {"a": unfit, "b": TEXT, "c": {**TEXT, "default": "c"}}
    nested = {"type": "object", "properties": {"in": {"type": "object", "properties": properties}, **properties}}
    answer = model_of(nested).model_validate({"b": "B", "in": {"b": "B"}})
    sent = {"b": "B", "c": "c"}
    assert payload(asked(nested), Resolve(answer)) == {**sent, "in": sent}


@pytest.mark.requirement("INT-7")
def test_a_default_that_does_not_fit_is_refused_if_it_was_given() -> None:
    schema: Schema = {"type": "object", "properties": {"a": UNFIT["outside of the bounds"]}}

    class Answer(BaseModel):
        a: int = 0

    assert payload(asked(schema), Resolve(Answer())) == {}
    with pytest.raises(InterruptsNotCoveredError, match=r"at \$\.a: minimum is 3"):
        payload(asked(schema), Resolve(Answer(a=0)))


@pytest.mark.parametrize("section", ["$defs", "definitions"])
def test_definitions_are_told_apart_by_their_whole_names(section: str) -> None:
    names = {"no(name)": TEXT, "No(Name)": {"type": "integer"}, "no-name": {"type": "boolean"}, "no.name": {"const": 1}}
    properties = {name: {"$ref": f"#/{section}/{name}"} for name in names}
    model = model_of({"type": "object", "properties": properties, "required": list(names), section: names})
    fits = {"no(name)": "x", "No(Name)": 7, "no-name": True, "no.name": 1}
    assert model.model_validate(fits).model_dump() == fits
    for name in names:
        with pytest.raises(ValidationError):
            model.model_validate({**fits, name: []})


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize("key", ["$defs", "definitions"])
@pytest.mark.parametrize("name", ["open({!r},'w')", "__import__('pathlib').Path({!r}).touch()"])
def test_nothing_that_an_agent_wrote_is_evaluated(name: str, key: str, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    code = name.format(str(trap)).replace("/", "~1")
    reference = {"$ref": f"#/{key}/{code}"}
    inner = {"type": "object", "title": code, "properties": {"a": reference, code: TEXT}, "default": code}
    for schema in ({**inner, key: {code: inner}}, {**reference, key: {code: inner}}, inner):
        answer_model(asked(schema))
    assert not trap.exists()


def test_a_model_makes_nobody_fetch_anything() -> None:
    with serve_bytes(Reply([b'{"type": "string"}'], content_type="application/json")) as server:
        schema = {"type": "object", "properties": {"a": {"$ref": server.url + "schema.json"}}, "$schema": server.url}
        assert answer_model(asked(schema)) is None
        assert server.requests == []


def test_a_definition_named_like_a_builtin_is_only_a_name() -> None:
    names = [name for name in dir(builtins) if name.isidentifier()]
    schema = {
        "type": "object",
        "properties": {name: {"$ref": f"#/$defs/{name}"} for name in names},
        "$defs": dict.fromkeys(names, TEXT),
    }
    model = model_of(schema)
    with pytest.raises(ValidationError):
        model(**dict.fromkeys(names, 7))


# --- models and dataclasses as payloads


class Colour(Enum):
    RED = "red"


class Item(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    unit_price: float
    colour: Colour | None = None


class Order(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    items: list[Item]
    shipped_at: datetime | None
    note: str | None = None
    tags: dict[str, str | None] = Field(default_factory=dict)
    is_gift: bool = False


class Anything(BaseModel):
    value: Any = None
    number: float = 0


LOOP: list[Any] = []
LOOP.append(LOOP)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@dataclass
class Address:
    street: str
    floor: int | None = None
    tags: list[str] = field(default_factory=list[str])


@pytest.mark.requirement("INT-7")
def test_a_model_is_sent_as_json_by_alias() -> None:
    order = Order(
        items=[Item(unit_price=2.5, colour=Colour.RED)], shipped_at=datetime(2026, 1, 1, tzinfo=UTC), note="!"
    )
    assert payload(asked(), Resolve(order)) == {
        "items": [{"unitPrice": 2.5, "colour": "red"}],
        "shippedAt": "2026-01-01T00:00:00Z",
        "note": "!",
        "tags": {},
        "isGift": False,
    }


def test_an_optional_field_that_nobody_filled_in_is_left_out_and_a_null_that_is_meant_is_not() -> None:
    order = Order(items=[Item(unit_price=1)], shipped_at=None, tags={"a": None})
    assert payload(asked(), Resolve(order)) == {
        "items": [{"unitPrice": 1.0}],
        "shippedAt": None,
        "tags": {"a": None},
        "isGift": False,
    }


def test_a_dataclass_is_sent_as_json() -> None:
    assert payload(asked(), Resolve(Address("Karl Johans gate"))) == {"street": "Karl Johans gate", "tags": []}
    assert payload(asked(), Resolve(Address("Karl Johans gate", 2)))["floor"] == 2


@pytest.mark.requirement("INT-7")
def test_a_model_is_held_against_the_schema_as_the_json_it_becomes() -> None:
    schema: Schema = {
        "type": "object",
        "required": ["unitPrice"],
        "additionalProperties": False,
        "properties": {"unitPrice": {}},
    }
    assert payload(asked(schema), Resolve(Item(unit_price=1))) == {"unitPrice": 1.0}
    assert "at $.colour: the schema has no such member" in refusal(
        asked(schema), Resolve(Item(unit_price=1, colour=Colour.RED))
    )


def test_a_model_that_json_cannot_hold_is_refused() -> None:
    @dataclass
    class Odd:
        thing: object

    said = refusal(asked(), Resolve(Odd(thing=object())))
    assert "the answer to 'i1' is a Odd that cannot be written as JSON" in said


@pytest.mark.parametrize("kind", [Item, Address])
def test_a_class_is_no_answer(kind: Any) -> None:
    assert "the answer to 'i1' cannot be sent as JSON: /payload is of type" in refusal(asked(), Resolve(kind))


UNHOLDABLE: dict[str, Any] = {
    "an object of Python's": object(),
    "bytes": b"x",
    "no number": float("nan"),
    "half a character": "\ud800",
    "half a character as a name": {"\ud800": 1},
    "a number as a name": {1: 1},
    "itself": LOOP,
    "5000 arrays": deep(5000),
    "a few arrays too many": deep(300),
    "a model with an object": Anything(value=object()),
    "a model with no number": Anything(number=float("nan")),
    "a model with half a character": Anything(value="\ud800"),
    "a model with itself": Anything(value=LOOP),
    "a model with bytes": Anything(value=b"\xff"),
    "a model among others": {"a": Anything(value=object())},
}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize("answer", UNHOLDABLE.values(), ids=list(UNHOLDABLE))
@pytest.mark.parametrize("is_asked", [False, True], ids=["resume", "answer"])
def test_what_json_cannot_hold_is_refused_before_anything_is_sent(answer: Any, is_asked: bool) -> None:
    asks = turn(outcome=RunFinishedInterruptOutcome(interrupts=[asked()]))
    agent = ScriptedAgent(asks, turn(text("Done.")), answer=(lambda asked: Resolve(answer)) if is_asked else None)

    def pay() -> None:
        agent.run_agent_sync("Pay")
        agent.run_agent_sync(resume={"i1": Resolve(answer)})

    with pytest.raises(InterruptsNotCoveredError, match=r"^nothing was sent: the answer to 'i1' .* JSON"):
        pay()
    assert ([each.id for each in agent.pending_interrupts], len(agent.inputs), agent.is_running) == (["i1"], 1, False)
    assert agent.run_agent_sync(resume={"i1": Resolve("yes")}).text == "Done."


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize("answer", [object(), {"a": float("nan")}], ids=["object", "NaN"])
def test_entries_are_refused_as_answers_are(answer: Any) -> None:
    with pytest.raises(InterruptsNotCoveredError, match="the answer to 'i1' cannot be sent as JSON: /payload"):
        cover([asked()], [ResumeEntry(interrupt_id="i1", status="resolved", payload=answer)])


def test_a_payload_is_held_against_the_schema_as_the_json_it_becomes() -> None:
    schema: Schema = {"type": "array", "items": {"type": "object", "required": ["unitPrice"]}}
    assert payload(asked(schema), Resolve((Item(unit_price=1), {"unitPrice": 2}))) == [
        {"unitPrice": 1.0, "colour": None},
        {"unitPrice": 2},
    ]


@pytest.mark.parametrize("kind", [Approve, Cancel, Deny, Resolve])
@pytest.mark.parametrize("metadata", [5, "x", [], {1: 2}], ids=repr)
def test_metadata_that_is_no_object_is_refused_where_it_is_written(kind: Any, metadata: Any) -> None:
    with pytest.raises(UsageError, match="the metadata of an answer is a dict with keys of text, not this"):
        kind(metadata=metadata)
    assert kind(metadata={"why": None}).metadata == {"why": None}


@pytest.mark.parametrize(
    "answer", [Cancel(metadata={"a": object()}), Resolve(1, metadata={"a": {"b": b"x"}})], ids=["object", "bytes"]
)
def test_metadata_that_json_cannot_hold_is_refused(answer: Answer) -> None:
    assert "the answer to 'i1' cannot be sent as JSON: /metadata/a" in refusal(asked(), answer)


# --- decisions


@every_kind_of_verb
@pytest.mark.requirement("INT-7")
def test_an_approval_is_told_in_the_words_of_the_protocols_pages(verb: Verb) -> None:
    assert sent(asked(), Approve(), verb) == {
        "interruptId": "i1",
        "status": "resolved",
        "payload": {"approved": True},
    }


NO_REASON: Schema = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}
CLOSED: Schema = {**NO_REASON, "additionalProperties": False}
AGENT_FRAMEWORK: Schema = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "accepted": {"type": "boolean"}, "editedArgs": {"type": "object"}},
    "anyOf": [{"required": ["approved"]}, {"required": ["accepted"]}],
    "additionalProperties": False,
}
SNAKES: Schema = {"type": "object", "properties": {"accepted": {}, "edited_args": {}, "message": {}}}
INSISTING: Schema = {**APPROVAL, "if": {"properties": {"approved": {"const": False}}}, "then": {"required": ["reason"]}}
BOOLEAN = {"type": "boolean"}
PROOF = {"ag2": {"proof": "p"}}


DECISIONS: list[tuple[Schema | None, Approve | Deny, Any]] = [
    (None, Approve(), {"approved": True}),
    (None, Deny("Too much."), {"approved": False, "reason": "Too much."}),
    (None, Deny(), {"approved": False}),
    ({}, Approve(), {"approved": True}),
    ({"type": "object"}, Deny("No."), {"approved": False, "reason": "No."}),
    (APPROVAL, Approve({}), {"approved": True, "editedArgs": {}}),
    (APPROVAL, Deny("No."), {"approved": False, "reason": "No."}),
    (APPROVAL, Deny(), {"approved": False}),
    (INSISTING, Deny(), {"approved": False, "reason": DENIED}),
    (NO_REASON, Deny("No."), {"approved": False, "reason": "No."}),
    (CLOSED, Deny("No."), {"approved": False}),
    (CLOSED, Approve(), {"approved": True}),
    ({**CLOSED, "additionalProperties": {"type": "integer"}}, Deny("No."), {"approved": False}),
    (AGENT_FRAMEWORK, Approve({"a": 1}), {"approved": True, "editedArgs": {"a": 1}}),
    (AGENT_FRAMEWORK, Deny("No."), {"approved": False}),
    (SNAKES, Approve({"a": 1}), {"accepted": True, "edited_args": {"a": 1}}),
    (SNAKES, Deny("No."), {"accepted": False, "message": "No."}),
    (BOOLEAN, Approve(), True),
    (BOOLEAN, Deny("No."), False),
    ({"type": 7}, Approve(), {"approved": True}),
]


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(("schema", "decision", "expected"), DECISIONS)
def test_a_decision_is_told_in_the_words_of_the_schema(
    schema: Schema | None, decision: Approve | Deny, expected: Any
) -> None:
    assert payload(asked(schema), decision) == expected


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(("decision", "expected"), [(Approve(), True), (Deny("No."), False)], ids=repr)
def test_a_confirmation_is_a_boolean_unless_its_schema_says_otherwise(decision: Approve | Deny, expected: bool) -> None:
    assert payload(asked(reason="confirmation"), decision) is expected
    assert payload(asked(APPROVAL, reason="confirmation"), decision)["approved"] is expected


UNSAID: list[Schema | None] = [
    NO_REASON,
    CLOSED,
    {"type": "object", "properties": {"accepted": {}}},
    {"type": "object", "properties": {}, "additionalProperties": False},
    BOOLEAN,
    {},
    None,
]


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize("schema", UNSAID, ids=repr)
def test_edited_arguments_are_refused_where_nothing_says_that_the_agent_reads_them(schema: Schema | None) -> None:
    said = refusal(asked(schema), Approve({"amount": 1}))
    assert "no place for edited arguments: the responseSchema names no editedArgs" in said
    assert said.endswith("write the payload yourself: Resolve(...)")


@pytest.mark.parametrize("answer", [Approve(metadata=PROOF), Deny("No.", metadata=PROOF)], ids=repr)
def test_the_metadata_of_a_decision_travels_beside_it(answer: Approve | Deny) -> None:
    [entry] = cover([asked(APPROVAL)], {"i1": answer})
    assert entry.metadata == PROOF
    assert entry.payload == payload(asked(APPROVAL), answer)


@pytest.mark.parametrize("decision", [Approve(), Deny()], ids=repr)
def test_a_question_that_is_not_about_a_decision_is_not_decided(decision: Approve | Deny) -> None:
    assert "no place for a decision" in refusal(asked(FILING), decision)
    assert 'at $: must be of type "string"' in refusal(asked(TEXT), decision)


def test_an_expired_question_is_not_decided() -> None:
    assert "expired" in refusal(asked(expires_at="2001-01-01T00:00:00Z"), Approve())


def test_a_decision_about_nothing_that_was_asked_is_refused() -> None:
    agent = ScriptedAgent(turn())
    agent.run_agent_sync("Hi")
    with pytest.raises(InterruptsNotCoveredError, match="'i9' is not among the pending interrupts"):
        agent.run_agent_sync(resume={"i9": Approve()})


@pytest.mark.parametrize("answer", [True, None, "yes", Approve, Cancel], ids=repr)
def test_what_is_no_answer_is_refused_with_the_ways_to_answer(answer: Any) -> None:
    ways = "wrap it: Resolve(answer), Approve(), Deny(reason) or Cancel()"
    assert refusal(asked(), answer).endswith(f" is a {type(answer).__name__}; {ways}")


@pytest.mark.parametrize("raw", [{}, {"action_requests": []}, {"action_requests": ["pay"]}, {"action_requests": "pay"}])
def test_an_interrupt_that_only_resembles_a_review_is_answered_in_the_words_of_every_other(raw: Any) -> None:
    asked = Interrupt(id="i1", reason="tool_call", metadata={"langgraph": {"raw": raw}})
    agent = ScriptedAgent(turn(outcome=RunFinishedInterruptOutcome(interrupts=[asked])), turn())
    agent.run_agent_sync("Hi")
    agent.run_agent_sync(resume={"i1": Approve()})
    assert [entry.payload for entry in agent.inputs[-1].resume or ()] == [{"approved": True}]


def test_a_model_without_its_extra_is_refused_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_pydantic_converter", None)
    with pytest.raises(UsageError, match=r"pip install 'agui-client\[answers\]'"):
        answer_model(asked({"type": "object", "properties": {"year": {"type": "integer"}}}))
