"""The arguments of a call on their way to the function: what does not fit is the agent's to mend (SEC-2, TOOL-2)."""

from __future__ import annotations

import json
import logging
import posixpath
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, cast
from uuid import UUID, uuid4

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    WithJsonSchema,
)
from typing_extensions import TypedDict

from agui_client import FunctionTool, tool
from agui_client._core.tools.toolset import FAILED
from agui_client.errors import ToolError, UsageError
from support.tool_calls import bound


class Unit(Enum):
    CELSIUS = "c"
    KELVIN = "k"


@dataclass
class Spot:
    x: int
    label: str = ""


class Circle(BaseModel):
    radius: float


class Login(BaseModel):
    token: SecretStr
    keep: bool = False
    days: int = 30


class Vault(BaseModel):
    key: SecretStr = SecretStr("default")
    tries: int = 1


class Bill(BaseModel, populate_by_name=True):
    amount: int = Field(alias="amt")


class Receipt(BaseModel):
    amount: int = Field(default=1, validation_alias="amt")


SPARE = Vault()
OLD: SecretStr = SecretStr("default")
A_NEW_ID: UUID = Field(default_factory=uuid4)


class Square(BaseModel):
    side: float = Field(gt=0)


@tool
def draw(
    name: str,
    count: int = 1,
    *,
    spots: list[Spot] | None = None,
    shape: Circle | Square | None = None,
    unit: Unit = Unit.CELSIUS,
    mode: Literal["fill", "line"] = "line",
    by_day: dict[date, int] | None = None,
) -> str:
    return name


def complaint(offered: FunctionTool[..., Any], text: str) -> str:
    """What the agent is told about arguments that do not fit."""
    with pytest.raises(ToolError) as caught:
        bound(offered, text)
    return caught.value.message


@pytest.mark.requirement("SEC-2")
def test_arguments_reach_the_function_as_its_own_types_with_its_defaults() -> None:
    text = '{"name": "a", "spots": [{"x": 1}], "shape": {"side": 2}, "unit": "k", "by_day": {"2026-01-02": 3}}'
    call = draw.bind(text)
    written: dict[str, Any] = {**json.loads(text), "count": 1, "mode": "line", "spots": [{"x": 1, "label": ""}]}
    assert call.arguments == written
    assert list(call.arguments) == ["name", "spots", "shape", "unit", "by_day", "count", "mode"]
    assert call.values == {
        "name": "a",
        "count": 1,
        "spots": [Spot(1)],
        "shape": Square(side=2),
        "unit": Unit.KELVIN,
        "mode": "line",
        "by_day": {date(2026, 1, 2): 3},
    }


@pytest.mark.parametrize("text", ["", " \n\t", "{}"])
def test_no_text_is_no_arguments(text: str) -> None:
    @tool
    def now(zone: str = "UTC") -> str:
        return zone

    call = now.bind(text)
    assert (call.arguments, call.values) == ({"zone": "UTC"}, {"zone": "UTC"})


@pytest.mark.requirement("TOOL-2", "SEC-2")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "a"', "the arguments are not JSON: EOF while parsing an object at line 1 column 12"),
        ('{"name": NaN}', "the arguments are not JSON: "),
        ('{"name": Infinity}', "the arguments are not JSON: "),
        ('{"name": "\\ud83d"}', "the arguments are not JSON: "),
        ('{"name": "\ud83d"}', "the arguments are not JSON: "),
        ('{"name": "a"} and so on', "the arguments are not JSON: trailing characters"),
        ("[" * 5000, "the arguments are not JSON: recursion limit"),
        ('{"count": ' + "9" * 5000 + "}", "the arguments are not JSON: number out of range"),
        ('{"count": 1e999}', "the arguments are not JSON: "),
        ('["a"]', "the arguments are an array; send one JSON object"),
        ('"a"', "the arguments are 'a'; send one JSON object"),
        ("1", "the arguments are 1; send one JSON object"),
        ("1.5", "the arguments are 1.5; send one JSON object"),
        ("true", "the arguments are a boolean; send one JSON object"),
        ("null", "the arguments are null; send one JSON object"),
    ],
)
def test_what_is_no_json_object_is_the_agents_to_mend(text: str, said: str) -> None:
    assert complaint(draw, text).startswith(said)


@pytest.mark.requirement("SEC-2")
@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("{}", "'name': needs a value"),
        ('{"name": 3}', "'name': Input should be a valid string"),
        ('{"name": null}', "'name': Input should be a valid string"),
        (
            '{"name": "a", "count": 1.5}',
            "'count': Input should be a valid integer, got a number with a fractional part",
        ),
        ('{"name": "a", "mode": "dots"}', "'mode': Input should be 'fill' or 'line'"),
        ('{"name": "a", "unit": "f"}', "'unit': Input should be 'c' or 'k'"),
        ('{"name": "a", "spots": 3}', "'spots': Input should be a valid array"),
        ('{"name": "a", "spots": [{"x": 1}, 5]}', "'spots.1': Input should be an object"),
        ('{"name": "a", "spots": [{"label": ""}]}', "'spots.0.x': Field required"),
        ('{"name": "a", "spots": [{"x": 1, "y": 2}]}', "'spots.0.y': there is no such name"),
        (
            '{"name": "a", "shape": {"side": 0}}',
            "'shape.Circle.radius': Field required; 'shape.Square.side': Input should be greater than 0",
        ),
        (
            '{"name": "a", "by_day": {"yesterday": 1}}',
            "'by_day.yesterday.[key]': Input should be a valid date or datetime, input is too short",
        ),
        (
            '{"count": "many", "colour": "red"}',
            (
                "'name': needs a value; "
                "'count': Input should be a valid integer, unable to parse string as an integer; "
                "'colour': there is no such name"
            ),
        ),
    ],
)
def test_each_wrong_argument_is_named_with_what_is_wrong(text: str, problems: str) -> None:
    assert complaint(draw, text) == f"the arguments do not fit: {problems}"


@pytest.mark.requirement("SEC-2")
def test_an_argument_nobody_asked_for_is_refused() -> None:
    @tool
    def now() -> str:
        return "now"

    assert complaint(now, '{"a": 1}') == "the arguments do not fit: 'a': there is no such name"


def test_numbers_written_another_way_fit_if_nothing_is_lost() -> None:
    call = draw.bind('{"name": "a", "count": "3"}')
    assert (call.arguments["count"], call.values["count"]) == (3, 3)
    assert draw.bind('{"name": "a", "count": 3.0}').values["count"] == 3


def test_of_two_values_for_one_argument_the_same_is_shown_and_used() -> None:
    call = draw.bind('{"name": "shown", "name": "used"}')
    assert call.arguments["name"] == call.values["name"]


def test_a_complaint_stays_short() -> None:
    spots = json.dumps({"name": "a", "spots": [{}] * 100})
    assert complaint(draw, spots).startswith("the arguments do not fit: 'spots.0.x': Field required; 'spots.1.x'")
    for text in (spots, json.dumps({"name": "a", "x" * 10_000: 1})):
        assert len(complaint(draw, text)) == 2001


def test_a_validator_speaks_to_the_agent_in_its_own_words() -> None:
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("odd numbers are not taken")
        if value == 4:
            raise ToolError("four is taken")
        return value // (value - 2)

    @tool
    def take(n: Annotated[int, AfterValidator(even)]) -> int:
        return n

    assert complaint(take, '{"n": 3}') == "the arguments do not fit: 'n': odd numbers are not taken"
    assert complaint(take, '{"n": 4}') == "four is taken"


def test_a_validator_that_breaks_is_logged_and_no_business_of_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def take(n: Annotated[int, AfterValidator(lambda n: 1 // n)]) -> int:
        return n

    assert complaint(take, '{"n": 0}') == FAILED
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, "tool take failed while its arguments were validated: ZeroDivisionError")
    ]


@pytest.mark.requirement("SEC-2")
def test_arguments_that_a_person_edited_are_held_against_the_schema_too() -> None:
    edited = draw.bind(MappingProxyType({"name": "b", "unit": Unit.KELVIN, "spots": [Spot(1)]}))
    assert {key: edited.arguments[key] for key in ("name", "unit", "spots", "count")} == {
        "name": "b",
        "unit": "k",
        "spots": [{"x": 1, "label": ""}],
        "count": 1,
    }
    assert edited.values["spots"] == [Spot(1)]
    with pytest.raises(ToolError, match="'name': needs a value"):
        draw.bind({})
    with pytest.raises(ToolError, match="the arguments are not JSON"):
        draw.bind({"name": object()})


NAMES = st.sampled_from(["name", "count", "spots", "shape", "unit", "mode", "by_day", "x", "side", "radius", "label"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | NAMES, inner, max_size=4),
    max_leaves=12,
)


def refusal(text: str) -> ToolError | None:
    try:
        draw.bind(text)
    except ToolError as error:
        return error
    return None


@pytest.mark.requirement("SEC-2", "TOOL-2")
@given(
    st.text(st.characters())
    | JSON.map(json.dumps)
    | st.dictionaries(NAMES, JSON).map(json.dumps)
    | st.binary().map(repr)
)
def test_no_text_does_anything_but_fit_or_raise_a_tool_error(text: str) -> None:
    error = refusal(text)
    assert error is None or 0 < len(error.message) <= 2001
    for name in ("Spot", "Unit", "Traceback", "pydantic"):
        assert error is None or name not in error.message or name in text


SPOTS: st.SearchStrategy[Any] = st.lists(
    st.fixed_dictionaries({"x": st.integers()}, optional={"label": st.text()}), max_size=3
)
FITTING: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": st.text()},
    optional={"count": st.integers(), "spots": SPOTS | st.none(), "mode": st.sampled_from(["fill", "line", "dots"])},
)


@pytest.mark.requirement("SEC-2")
@given(FITTING | st.dictionaries(NAMES, JSON, max_size=3))
def test_what_fits_the_advertised_schema_is_taken(sent: dict[str, Any]) -> None:
    text = json.dumps(sent)
    is_sendable = all(each not in text for each in ("NaN", "Infinity"))
    validator: Any = jsonschema.Draft202012Validator(cast("dict[str, Any]", draw.definition.parameters))
    fits = validator.is_valid(sent)
    if fits and is_sendable and "by_day" not in sent:
        call = draw.bind(text)
        assert sent.keys() <= call.arguments.keys()
        assert draw.bind(json.dumps(call.arguments)) == call


@pytest.mark.requirement("SEC-3")
def test_what_is_shown_of_a_call_is_what_the_function_gets() -> None:
    @tool
    def wipe(
        force: bool, after: date = date(2026, 1, 2), at: Annotated[int, Field(alias="where")] = 0, note: object = draw
    ) -> None: ...

    call = wipe.bind('{"force": "yes", "where": "7"}')
    assert call.arguments == {"force": True, "after": "2026-01-02", "where": 7}
    assert call.values == {"force": True, "after": date(2026, 1, 2), "at": 7, "note": draw}


@pytest.mark.requirement("SEC-3")
def test_a_secret_is_shown_as_it_was_sent() -> None:
    @tool
    def log_in(key: SecretStr, login: Login, old: SecretStr = OLD) -> None: ...

    call = log_in.bind('{"key": "hunter2", "login": {"token": "abc", "keep": "true"}}')
    assert call.arguments == {
        "key": "hunter2",
        "login": {"token": "abc", "keep": True, "days": 30},
    }
    assert (call.values["key"], call.values["login"].token) == (SecretStr("hunter2"), SecretStr("abc"))


@pytest.mark.requirement("SEC-2", "SEC-3")
def test_edited_arguments_are_validated_as_given() -> None:
    @tool
    def pay(
        amount: int, tip: Annotated[int, AfterValidator(lambda value: value * 100)] = 0, force: bool = False
    ) -> None:
        """Pay."""

    call = pay.bind('{"amount": 5, "tip": 2}')
    assert call.arguments == call.values == {"amount": 5, "tip": 200, "force": False}
    assert pay.bind({"amount": 7, "tip": 3}).values == {"amount": 7, "tip": 300, "force": False}
    assert pay.bind({"amount": 7}).values == {"amount": 7, "tip": 0, "force": False}


class Ship(BaseModel):
    to: Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)] = Field(validation_alias="toPort")
    kind: Literal["ferry", "cargo"] = Field(default="ferry", alias="shipKind")
    secret_note: str = Field(default="none", exclude=True)


class Berth(TypedDict, total=False):
    number: Annotated[int, Field(alias="berthNumber")]


@dataclass
class Crew:
    names: set[str] = field(default_factory=lambda: {"ann"})
    captain: str | None = None


def resolved(path: str) -> str:
    return posixpath.normpath(path)


WRITTEN: dict[str, tuple[Any, str, Any]] = {
    "a path that is resolved": (
        Annotated[Path, AfterValidator(lambda path: Path(posixpath.normpath(path)))],
        '"/tmp/../etc/passwd"',
        "/etc/passwd",
    ),
    "a text that becomes a path": (Annotated[str, AfterValidator(resolved)], '"/tmp/../etc/passwd"', "/etc/passwd"),
    "a text before it is validated": (Annotated[str, BeforeValidator(resolved)], '"/tmp/../etc"', "/etc"),
    "a text that is stripped and lowered": (
        Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)],
        '"  BOB@x "',
        "bob@x",
    ),
    "defaults and aliases of a model": (
        Ship,
        '{"toPort": " OSL "}',
        {"toPort": "osl", "shipKind": "ferry", "secret_note": "none"},
    ),
    "models in a list": (
        list[Ship],
        '[{"toPort": "OSL"}]',
        [{"toPort": "osl", "shipKind": "ferry", "secret_note": "none"}],
    ),
    "an alias in a typed dictionary": (Berth, '{"berthNumber": "7"}', {"berthNumber": 7}),
    "defaults of a dataclass": (Crew, "{}", {"names": ["ann"], "captain": None}),
    "a set in the order that was sent": (set[str], '["b", "a", "b"]', ["b", "a"]),
    "dates": (list[date | datetime], '["2026-01-02", "2026-01-02 10:00Z"]', ["2026-01-02", "2026-01-02T10:00:00Z"]),
    "keys of a dictionary": (dict[date, int], '{"2026-01-02": "3"}', {"2026-01-02": 3}),
    "keys that are numbers": (dict[int, bool], '{"007": "yes"}', {"7": True}),
    "a number as it was sent": (float, "5", 5),
    "money as a number": (Decimal, "19.99", 19.99),
    "money as a text": (Decimal, '"19.990"', "19.990"),
    "money that is rounded": (Annotated[Decimal, AfterValidator(lambda amount: round(amount, 1))], "19.99", 20.0),
    "an id": (UUID, '"123E4567E89B12D3A456426614174000"', "123e4567-e89b-12d3-a456-426614174000"),
    "an enumeration": (Unit, '"k"', "k"),
    "secrets inside": (list[SecretStr], '["hunter2"]', ["hunter2"]),
    "an object that has no JSON": (Annotated[Any, AfterValidator(lambda _: object())], '"id"', "id"),
}


@pytest.mark.requirement("SEC-2", "SEC-3")
@pytest.mark.parametrize(("kind", "sent", "written"), WRITTEN.values(), ids=list(WRITTEN))
def test_what_is_shown_are_the_validated_values_by_their_wire_names(kind: Any, sent: str, written: Any) -> None:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = kind
    shown = tool(take).bind(f'{{"value": {sent}}}').arguments
    assert json.dumps(shown) == json.dumps({"value": written})


@pytest.mark.requirement("SEC-3")
def test_a_secret_default_is_neither_offered_nor_shown() -> None:
    @tool
    def log_in(vault: Vault = SPARE, old: SecretStr = OLD) -> None: ...

    assert "*" not in json.dumps(log_in.definition.parameters)
    call = log_in.bind("")
    assert call.arguments == {"vault": {"tries": 1}}
    assert call.values == {"vault": SPARE, "old": OLD}


def test_one_is_not_true_when_it_is_edited() -> None:
    @tool
    def put(value: bool | int) -> None: ...

    assert put.bind({"value": True}).values["value"] is True
    assert put.bind({"value": 1}).values["value"] == 1
    assert put.bind({"value": 1}).values["value"] is not True


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("sent", ['"true"', "1", '"yes"'])
def test_a_boolean_is_shown_as_the_function_reads_it_at_any_depth(sent: str) -> None:
    @tool
    def wipe(force: bool, logins: list[Login], by_name: dict[str, bool]) -> None: ...

    call = wipe.bind(f'{{"force": {sent}, "logins": [{{"token": "abc", "keep": {sent}}}], "by_name": {{"a": {sent}}}}}')
    assert call.arguments["force"] is True
    assert call.arguments["logins"][0]["keep"] is True
    assert call.arguments["logins"][0]["token"] == "abc"
    assert call.arguments["by_name"]["a"] is True


READ_ONCE: list[Any] = [
    Iterable[int],
    Generator[int, None, None],
    list[Iterable[int]],
    Annotated[Iterable[int], WithJsonSchema({"type": "array"})],
]


@pytest.mark.parametrize("kind", READ_ONCE, ids=str)
def test_what_can_be_read_only_once_is_no_parameter(kind: Any) -> None:
    def total(numbers: Any) -> int:
        return sum(numbers)

    total.__annotations__["numbers"] = kind
    with pytest.raises(UsageError, match=r"'numbers': it can be read only once.* take a list"):
        tool(total)


@pytest.mark.requirement("TOOL-2")
def test_a_number_that_json_does_not_have_is_no_number_in_words_either() -> None:
    @tool
    def wait(seconds: float) -> None: ...

    assert (
        complaint(wait, '{"seconds": "Infinity"}')
        == "the arguments do not fit: 'seconds': Input should be a finite number"
    )
