"""The components of the basic catalog: their properties, and their schema in our own words for agents to read.

One table says what a property is; the engine reads its kind, and the context of `A2UI()` is made of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from agui_client.a2ui._words import BASIC_CATALOG


class Kind(Enum):
    """The kind of value that a property takes."""

    STATIC = "static"
    """A literal."""
    DYNAMIC = "dynamic"
    """A literal, a binding to data, or a call."""
    CHILD = "child"
    """The id of a component."""
    CHILDREN = "children"
    """Ids of components, or a template for each item of an array."""
    TABS = "tabs"
    """Objects with a title and a component."""
    OPTIONS = "options"
    """Objects with a label and a value."""
    ACTION = "action"
    """The act of a person who presses."""
    CHECKS = "checks"
    """Conditions with messages."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a component."""

    about: str
    """A sentence for the agent."""
    kind: Kind = Kind.DYNAMIC
    type: str = "string"
    """The JSON type of its value."""
    choices: tuple[str, ...] = ()
    """The values that there are; any if empty."""
    is_required: bool = False
    other_names: tuple[str, ...] = ()
    """Names that models were taught by mistake; read where the right name is absent."""


_TEXT = "A text, {path} or a call that makes text."


def _one_of(about: str, *choices: str) -> Property:
    return Property(about, Kind.STATIC, choices=choices)


def _child(about: str, *other_names: str) -> Property:
    return Property(
        f"{about} One id; several components go into a Row or Column.", Kind.CHILD, "string", (), True, other_names
    )


_CHECKS = Property("Checks: the message of each whose condition is not true is shown.", Kind.CHECKS, "array")
_ADDRESS = Property("The https address.", is_required=True)
_LABEL = Property("The name of the field, as the person reads it.")
_REQUIRED_LABEL = Property(_LABEL.about, is_required=True)
_ALIGN = _one_of("How children lie across the direction.", "start", "center", "end", "stretch")
_JUSTIFY = _one_of(
    "How children share the space along the direction.",
    "start", "center", "end", "spaceBetween", "spaceAround", "spaceEvenly", "stretch",
)  # fmt: skip
_CHILDREN = Property(
    "The ids of the children in order, or {componentId, path} to draw one component for each item of an array; paths "
    "without a leading slash are then those of the item.",
    Kind.CHILDREN,
    "array",
    is_required=True,
)

COMPONENTS: dict[str, dict[str, Property]] = {
    "Text": {
        "text": Property(f"{_TEXT} Simple Markdown is drawn.", is_required=True),
        "variant": _one_of("The size.", "h1", "h2", "h3", "h4", "h5", "caption", "body"),
    },
    "Image": {
        "url": _ADDRESS,
        "description": Property("What the picture shows, for people who do not see it."),
        "fit": _one_of("How it fills its place.", "contain", "cover", "fill", "none", "scaleDown"),
        "variant": _one_of("The size.", "icon", "avatar", "smallFeature", "mediumFeature", "largeFeature", "header"),
    },
    "Icon": {"name": Property("A name such as check, error, favorite, search or calendarToday.", is_required=True)},
    "Video": {"url": _ADDRESS},
    "AudioPlayer": {"url": _ADDRESS, "description": Property("What is heard.")},
    "Row": {"children": _CHILDREN, "justify": _JUSTIFY, "align": _ALIGN},
    "Column": {"children": _CHILDREN, "justify": _JUSTIFY, "align": _ALIGN},
    "List": {
        "children": _CHILDREN,
        "direction": _one_of("The direction of the items.", "vertical", "horizontal"),
        "align": _ALIGN,
    },
    "Card": {"child": _child("The component in the frame.")},
    "Tabs": {
        "tabs": Property("The tabs: [{title, child}].", Kind.TABS, "array", (), True, ("tabItems",)),
    },
    "Modal": {
        "trigger": _child("The component that opens it, such as a Button.", "entryPointChild"),
        "content": _child("The component that is shown then.", "contentChild"),
    },
    "Divider": {"axis": _one_of("The direction of the line.", "horizontal", "vertical")},
    "Button": {
        "child": _child("Its text or icon."),
        "variant": _one_of("The weight; at most one button is primary.", "default", "primary", "borderless"),
        "action": Property(
            "{event: {name, context}}: the name and the worked-out context come back to you when it is pressed.",
            Kind.ACTION,
            "object",
            is_required=True,
        ),
        "checks": _CHECKS,
    },
    "TextField": {
        "label": _REQUIRED_LABEL,
        "value": Property("The text; bind it with {path}, or it is lost.", other_names=("text",)),
        "variant": Property(
            "The kind of text.",
            Kind.STATIC,
            choices=("shortText", "longText", "number", "obscured"),
            other_names=("textFieldType",),
        ),
        "validationRegexp": Property("A pattern; the client leaves it to you to check.", Kind.STATIC),
        "checks": _CHECKS,
    },
    "CheckBox": {
        "label": _REQUIRED_LABEL,
        "value": Property(
            "Whether it is checked; bind it with {path}.", type="boolean", is_required=True, other_names=("checked",)
        ),
        "checks": _CHECKS,
    },
    "ChoicePicker": {
        "label": _LABEL,
        "options": Property("What there is to choose: [{label, value}].", Kind.OPTIONS, "array", is_required=True),
        "value": Property(
            "The values that are chosen, an array also for one; bind it with {path}.",
            type="array",
            is_required=True,
            other_names=("selections",),
        ),
        "variant": _one_of("Whether several may be chosen.", "mutuallyExclusive", "multipleSelection"),
        "displayStyle": _one_of("The look.", "checkbox", "chips"),
        "filterable": Property("Whether the person can search.", Kind.STATIC, "boolean"),
        "checks": _CHECKS,
    },
    "Slider": {
        "label": _LABEL,
        "min": Property("The least value, 0 if left out.", Kind.STATIC, "number", other_names=("minValue",)),
        "max": Property("The greatest value.", Kind.STATIC, "number", (), True, ("maxValue",)),
        "value": Property("The value; bind it with {path}.", type="number", is_required=True),
        "checks": _CHECKS,
    },
    "DateTimeInput": {
        "label": _LABEL,
        "value": Property("ISO 8601, or an empty text; bind it with {path}.", is_required=True),
        "enableDate": Property("Whether a date is asked for.", Kind.STATIC, "boolean"),
        "enableTime": Property("Whether a time is asked for.", Kind.STATIC, "boolean"),
        "min": Property("The earliest value, ISO 8601."),
        "max": Property("The latest value, ISO 8601."),
        "checks": _CHECKS,
    },
}
"""The components by name, each with its properties."""

INPUTS = frozenset({"TextField", "CheckBox", "ChoicePicker", "Slider", "DateTimeInput"})
"""The components into which a person enters a value."""

_ID = {"type": "string", "description": "The id, once per surface; the outermost component is root."}
_WEIGHT = {"type": "number", "description": "The share of the space in a Row or Column."}
_DYNAMIC_PARTS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    {
        "type": "object",
        "properties": {"call": {"type": "string"}, "args": {"type": "object"}, "returnType": {"type": "string"}},
        "required": ["call", "args"],
    },
]
_TEMPLATE: dict[str, Any] = {
    "type": "object",
    "properties": {"componentId": {"type": "string"}, "path": {"type": "string"}},
    "required": ["componentId", "path"],
}


def component_schema() -> dict[str, Any]:
    """Return the basic catalog as agents are given it: its id, and a JSON Schema for each component."""
    components = {name: _schema_of(name, properties) for name, properties in COMPONENTS.items()}
    return {"catalogId": BASIC_CATALOG, "components": components}


def _schema_of(name: str, properties: dict[str, Property]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "id": _ID,
            "component": {"const": name},
            "weight": _WEIGHT,
            **{each: _property_schema(about) for each, about in properties.items()},
        },
        "required": ["id", "component", *(each for each, about in properties.items() if about.is_required)],
    }


def _property_schema(about: Property) -> dict[str, Any]:
    described = {"description": about.about}
    literal: dict[str, Any] = {"type": about.type}
    match about.kind:
        case Kind.DYNAMIC:
            return {**described, "anyOf": [literal, *_DYNAMIC_PARTS]}
        case Kind.CHILDREN:
            return {**described, "anyOf": [{"type": "array", "items": {"type": "string"}}, _TEMPLATE]}
        case Kind.TABS:
            return {**described, **literal, "items": _objects("title", "child")}
        case Kind.OPTIONS:
            return {**described, **literal, "items": _objects("label", "value")}
        case Kind.CHECKS:
            return {**described, **literal, "items": _objects("condition", "message")}
        case _:
            return {**described, **literal, **({"enum": list(about.choices)} if about.choices else {})}


def _objects(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {} for name in names}, "required": list(names)}
