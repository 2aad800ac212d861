"""What an agent is offered of a Python function: its name, what the docstring says, a JSON schema of the arguments."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import pytest
from ag_ui.core import Tool
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from agui_client import FunctionTool, ToolContext, UsageError, tool

if TYPE_CHECKING:
    from decimal import Decimal


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Rank(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list[str])


class Circle(BaseModel):
    """A round thing."""

    title: str
    middle: Point


class Folder(BaseModel):
    model_config = ConfigDict(title="A folder of folders")

    folders: list[Folder] = []


class Range(TypedDict, total=False):
    low: int


def arguments(function: Callable[..., object]) -> dict[str, Any]:
    """The schema of what a function takes."""
    return schema_of(tool(function))


def schema_of(offered: FunctionTool[..., Any]) -> dict[str, Any]:
    schema: Any = offered.definition.parameters
    assert isinstance(schema, dict)
    return cast("dict[str, Any]", schema)


def test_a_tool_is_offered_with_name_description_and_schema() -> None:
    @tool
    def get_weather(city: str, units: Literal["c", "f"] = "c", *, days: Annotated[int, Field(ge=1)] = 1) -> str:
        """Current weather for a city.

        Not for the sea.

        Args:
            city: City name, e.g. "Oslo".
            units: Temperature unit,
                Celsius by default.
            days: How many days.
            hours: There is no such argument.

        Returns:
            A sentence.
        """
        return f"{city} {units} {days}"

    assert get_weather.definition == Tool(
        name="get_weather",
        description="Current weather for a city.\n\nNot for the sea.\n\nhours: There is no such argument.",
        parameters={
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": 'City name, e.g. "Oslo".'},
                "units": {
                    "type": "string",
                    "enum": ["c", "f"],
                    "default": "c",
                    "description": "Temperature unit,\nCelsius by default.",
                },
                "days": {"type": "integer", "minimum": 1, "default": 1, "description": "How many days."},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    )
    assert (get_weather.name, get_weather.description) == ("get_weather", get_weather.definition.description)


def test_a_tool_without_arguments_takes_an_empty_object() -> None:
    def now() -> str:
        return "now"

    assert tool(now).definition == Tool(
        name="now", description="", parameters={"type": "object", "properties": {}, "additionalProperties": False}
    )


NULL = {"type": "null"}
POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "number"},
        "y": {"type": "number", "default": 0.0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
    "additionalProperties": False,
}
CIRCLE = {
    "type": "object",
    "description": "A round thing.",
    "properties": {"title": {"type": "string"}, "middle": {"$ref": "#/$defs/Point"}},
    "required": ["title", "middle"],
}
LENIENT_POINT = {key: value for key, value in POINT.items() if key != "additionalProperties"}
"""A dataclass goes by the rules of the model that holds it."""


@pytest.mark.parametrize(
    ("annotation", "schema", "definitions"),
    [
        (Any, {}, {}),
        (bool, {"type": "boolean"}, {}),
        (list[int], {"type": "array", "items": {"type": "integer"}}, {}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}, {}),
        (int | None, {"anyOf": [{"type": "integer"}, NULL]}, {}),
        (date, {"type": "string", "format": "date"}, {}),
        (Literal["a", 1], {"enum": ["a", 1]}, {}),
        (Annotated[str, Field(pattern="^a", description="An a.")], None, {}),
        (Annotated[str, Field(title="Said")], {"type": "string", "title": "Said"}, {}),
        (Color, {"$ref": "#/$defs/Color"}, {"Color": {"type": "string", "enum": ["red", "blue"]}}),
        (Rank, {"$ref": "#/$defs/Rank"}, {"Rank": {"type": "integer", "enum": [1, 2]}}),
        (Point, {"$ref": "#/$defs/Point"}, {"Point": POINT}),
        (Circle, {"$ref": "#/$defs/Circle"}, {"Circle": CIRCLE, "Point": LENIENT_POINT}),
        (
            Folder,
            {"$ref": "#/$defs/Folder"},
            {
                "Folder": {
                    "type": "object",
                    "properties": {"folders": {"type": "array", "items": {"$ref": "#/$defs/Folder"}, "default": []}},
                }
            },
        ),
        (
            Range,
            {"$ref": "#/$defs/Range"},
            {"Range": {"type": "object", "properties": {"low": {"type": "integer"}}, "additionalProperties": False}},
        ),
    ],
    ids=str,
)
def test_types_become_schemas_without_the_titles_of_python(
    annotation: Any, schema: dict[str, Any] | None, definitions: dict[str, Any]
) -> None:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = annotation
    expected = {"type": "string", "pattern": "^a", "description": "An a."} if schema is None else schema
    made = arguments(take)
    assert made["properties"] == {"value": expected}
    assert made.get("$defs", {}) == definitions


def test_arguments_may_have_any_name() -> None:
    def take(_hidden: int, json: str, model_config: str, copy: str, title: str, validate: str) -> None: ...

    assert list(arguments(take)["properties"]) == ["_hidden", "json", "model_config", "copy", "title", "validate"]


def test_an_argument_can_have_another_name_for_the_agent() -> None:
    def move(
        from_: Annotated[str, Field(alias="from")],
        to: str = Field("here", alias="into"),
        by: str = Field("foot", validation_alias="means"),
    ) -> str:
        """Move.

        Args:
            from_: Where it is.
            to: Where it goes.
            by: How.
        """
        return f"{from_} {to} {by}"

    assert arguments(move) == {
        "type": "object",
        "properties": {
            "from": {"type": "string", "description": "Where it is."},
            "into": {"type": "string", "default": "here", "description": "Where it goes."},
            "means": {"type": "string", "default": "foot", "description": "How."},
        },
        "required": ["from"],
        "additionalProperties": False,
    }
    assert tool(move).bind('{"from": "there"}').values == {"from_": "there", "to": "here", "by": "foot"}


def test_defaults_that_json_does_not_have_are_left_out() -> None:
    def take(limit: float = math.inf, marker: Any = object(), color: Color = Color.RED) -> None: ...  # noqa: B008

    assert arguments(take)["properties"] == {
        "limit": {"type": "number"},
        "marker": {},
        "color": {"$ref": "#/$defs/Color", "default": "red"},
    }
    json.dumps(arguments(take), allow_nan=False)


def test_what_a_field_says_goes_before_what_the_docstring_says() -> None:
    def take(
        one: Annotated[int, Field(description="From the field.")],
        two: int = Field(2, description="From the default."),
        three: Annotated[Point, Field(description="A point.")] = Point(1),  # noqa: B008
    ) -> None:
        """Take.

        Args:
            one: From the docstring.
            two: From the docstring.
            three: From the docstring.
        """

    found = arguments(take)["properties"]
    assert [each["description"] for each in found.values()] == ["From the field.", "From the default.", "A point."]


def google(n: int, tags: str) -> None:
    """Search.

    Everywhere.

    Args:
        n (int): How many.
        tags: Which ones,
            separated by commas.

    Raises:
        ValueError: Never.

    Example:
        >>> search(1, "a")
    """


def numpy(n: int, tags: str) -> None:
    """Search.

    Everywhere.

    Parameters
    ----------
    n : int
        How many.

    Other Parameters
    ----------------
    tags
        Which ones,
        separated by commas.
    """


def sphinx(n: int, tags: str) -> None:
    """Search.

    Everywhere.

    :param int n: How many.
    :param tags: Which ones,
        separated by commas.
    :raises ValueError: Never.
    :returns: Nothing.
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_docstrings_of_three_styles_are_read(function: Callable[..., None]) -> None:
    offered = tool(function)
    assert offered.description == "Search.\n\nEverywhere."
    assert arguments(function)["properties"] == {
        "n": {"type": "integer", "description": "How many."},
        "tags": {"type": "string", "description": "Which ones,\nseparated by commas."},
    }


def test_plain_prose_is_the_description_as_it_stands() -> None:
    def search() -> None:
        """Search: all of it.

        Note: slow, and
          indented.
        """

    assert tool(search).description == "Search: all of it.\n\nNote: slow, and\n  indented."


def test_a_description_of_its_own_replaces_the_prose_alone() -> None:
    offered = tool(google, description="Find.")
    assert offered.description == "Find."
    assert schema_of(offered)["properties"]["n"]["description"] == "How many."


def test_a_context_is_not_offered() -> None:
    def take(ctx: ToolContext, /, path: str) -> None:
        """Take.

        Args:
            ctx: Not the agent's.
            path: A path.
        """

    assert arguments(take)["properties"] == {"path": {"type": "string", "description": "A path."}}


def test_types_that_are_local_to_the_function_around_are_found() -> None:
    class Item(BaseModel):
        count: int

    class Shop:
        class Customer(BaseModel):
            name: str

        @tool
        def order(self, item: Item, customer: Customer) -> None: ...

    assert sorted(schema_of(Shop.order)["$defs"]) == ["Customer", "Item"]


def test_the_type_of_what_is_returned_need_not_be_known() -> None:
    def price(item: str) -> Decimal:
        raise NotImplementedError(item)

    assert list(arguments(price)["properties"]) == ["item"]


def test_annotations_that_were_not_postponed_are_types_already() -> None:
    def take(count: Any) -> None: ...

    take.__annotations__ = {"count": int, "return": None}
    assert arguments(take)["properties"] == {"count": {"type": "integer"}}


def any_positional(*paths: str) -> None: ...
def any_keyword(**options: str) -> None: ...
def positional_only(path: str, /) -> None: ...
def late_context(path: str, ctx: ToolContext) -> None: ...
def keyword_context(*, ctx: ToolContext) -> None: ...
def unknown_type(price: Decimal) -> None: ...
def no_schema(callback: Callable[[], None], count: int) -> None: ...
def no_validator(path: str, lock: Lock) -> None: ...


class Lock:
    pass


def untyped(path: str, mode: Any) -> None: ...


del untyped.__annotations__["mode"]


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (any_positional, "'paths' is variadic positional"),
        (any_keyword, "'options' is variadic keyword"),
        (positional_only, "'path' is positional-only"),
        (late_context, "'ctx' is a ToolContext, which has to be the first"),
        (keyword_context, "'ctx' is a ToolContext, which has to be the first"),
        (untyped, "'mode' has no type"),
        (unknown_type, "name 'Decimal' is not defined"),
        (no_schema, "no JSON schema can be made for the parameter 'callback'"),
        (no_validator, "no JSON schema can be made for the parameter 'lock'"),
    ],
)
def test_what_no_agent_can_call_is_refused_where_it_is_decorated(function: Callable[..., None], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        tool(function)
    assert str(caught.value).startswith(f"{function.__name__!r} cannot be a tool: ")
    assert sentence in str(caught.value)
