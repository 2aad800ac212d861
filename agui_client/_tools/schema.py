"""What a function takes from the agent: its parameters, resolved and judged, as a JSON schema and as a validator.

Pydantic makes both from one signature, so that what is advertised is what is accepted (SEC-2). A function that cannot
be offered to an agent is refused here, when it is decorated. How a call's arguments are bound is `arguments.py`'s.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter
from types import CodeType
from typing import Any, cast, get_type_hints

from pydantic import ConfigDict, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, PydanticSerializationError, from_json, to_json

from agui_client._tools.context import ToolContext
from agui_client.errors import UsageError

_RECEIVERS = ("self", "cls")
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class _UnfitError(Exception):
    """Why a function cannot be offered to an agent, in a sentence."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a function takes."""

    has_receiver: bool
    """Whether it is a method that has yet to be taken from an instance."""
    has_context: bool
    """Whether it wants a `ToolContext` first."""
    adapter: TypeAdapter[dict[str, Any]]
    """Validates a JSON object and gives the function's keyword arguments, defaults included."""
    schema: dict[str, Any]
    """The JSON schema of that object."""
    names: dict[str, str]
    """The names of the function's parameters, by those the agent uses."""

    @classmethod
    def of(cls, function: Callable[..., object], tool_name: str, descriptions: dict[str, str]) -> Parameters:
        """Read a function's signature.

        Args:
            function: The function, or a bound method.
            tool_name: What the tool is called in errors.
            descriptions: What the docstring says about parameters, by name.

        Raises:
            UsageError: It cannot be offered to an agent.
        """
        try:
            parameters = _resolved(function)
            has_receiver = bool(parameters) and parameters[0].name in _RECEIVERS
            has_context = any(_is_context(each) for each in parameters[has_receiver:][:1])
            arguments = parameters[has_receiver + has_context :]
            for parameter in arguments:
                _judge(parameter)
            adapter, schema = _fitted(arguments)
            names = {_offered_name(each): each.name for each in arguments}
        except _UnfitError as unfit:
            raise UsageError(f"{tool_name!r} cannot be a tool: {unfit}") from unfit.__cause__
        for offered, name in names.items():
            # pydantic 2.11 does not offer a parameter under its validation_alias.
            argument = schema["properties"].get(offered, {})
            if description := descriptions.get(name):
                argument.setdefault("description", description)  # after what Field(description=...) says
        return cls(has_receiver, has_context, adapter, schema, names)


def _is_context(parameter: Parameter) -> bool:
    return parameter.annotation is ToolContext and parameter.kind in _POSITIONAL


def _judge(parameter: Parameter) -> None:
    """Refuse a parameter that no agent could give a value for."""
    named = f"the parameter {parameter.name!r}"
    if parameter.annotation is ToolContext:
        raise _UnfitError(f"{named} is a ToolContext, which has to be the first positional parameter")
    if parameter.kind in _VARIADIC:
        raise _UnfitError(f"{named} takes any number of arguments, and no schema can list them; name each one")
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        raise _UnfitError(f"{named} is positional-only, and an agent gives arguments by name; take the / away")
    if parameter.annotation is Parameter.empty:
        raise _UnfitError(f"{named} has no type; annotate it, with Any if anything will do")


def _resolved(function: Callable[..., object]) -> list[Parameter]:
    """The parameters, with types where annotations were postponed."""
    plain = inspect.unwrap(function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = _hints(parameters, plain.__globals__, _local_names(plain.__code__))
    except Exception as error:
        raise _UnfitError(
            f"an annotation cannot be read ({error}); what it names must be there when the tool is made, "
            "so it cannot be imported under `if TYPE_CHECKING:` alone"
        ) from error
    return [each.replace(annotation=hints.get(each.name, each.annotation)) for each in parameters]


def _hints(parameters: Sequence[Parameter], globalns: dict[str, Any], localns: dict[str, Any]) -> dict[str, Any]:
    """The parameters' types alone: what a function returns is often imported for type checkers only."""

    def annotated() -> None:
        """Carries the parameters' types."""

    annotated.__annotations__ = {each.name: each.annotation for each in parameters}
    return get_type_hints(annotated, globalns, localns, include_extras=True)


def _local_names(code: CodeType) -> dict[str, Any]:
    """What is visible where a function is being defined: the locals of the frames whose code holds its code."""
    names: dict[str, Any] = {}
    frame = inspect.currentframe()
    while frame is not None and code not in frame.f_code.co_consts:
        frame = frame.f_back
    while frame is not None and code in frame.f_code.co_consts:
        names = {**frame.f_locals, **names}
        code, frame = frame.f_code, frame.f_back
    return names


def _fitted(parameters: Sequence[Parameter]) -> tuple[TypeAdapter[dict[str, Any]], dict[str, Any]]:
    try:
        return _validator(parameters)
    except Exception as error:
        culprit = next((each for each in parameters if not _is_fit(each)), None)
        named = "its parameters" if culprit is None else f"the parameter {culprit.name!r}"
        raise _UnfitError(f"no JSON schema can be made for {named}: {error}") from error


def _is_fit(parameter: Parameter) -> bool:
    try:
        _validator([parameter])
    except Exception:
        return False
    return True


def _validator(parameters: Sequence[Parameter]) -> tuple[TypeAdapter[dict[str, Any]], dict[str, Any]]:
    """A validator that gives back what the function would be called with, and its schema."""

    def collect(**values: Any) -> dict[str, Any]:
        """Give back what it is called with."""
        return values

    named = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    collect.__dict__["__signature__"] = inspect.Signature(named)
    collect.__annotations__ = {each.name: each.annotation for each in parameters}
    function: Any = collect
    adapter = TypeAdapter[dict[str, Any]](function, config=ConfigDict(extra="forbid", allow_inf_nan=False))
    if _is_read_once(adapter.core_schema):
        raise _UnfitError("it can be read only once, and nobody could look at it before the function; take a list")
    return adapter, from_json(to_json(adapter.json_schema(schema_generator=_Schema)), allow_inf_nan=False)


def _is_read_once(schema: object) -> bool:
    """Whether anything in it is validated as an iterator, as pydantic does with `Iterable` and `Generator`."""
    if isinstance(schema, dict):
        members = cast("dict[str, object]", schema)
        return members.get("type") == "generator" or any(map(_is_read_once, members.values()))
    return isinstance(schema, list | tuple) and any(map(_is_read_once, cast("Sequence[object]", schema)))


class _Schema(GenerateJsonSchema):
    """Leaves out what tells an agent nothing: titles made from names, and defaults that JSON does not have."""

    def generate(self, schema: CoreSchema, mode: Any = "validation") -> dict[str, Any]:
        """As pydantic's, without the titles of classes: their names are the keys of `$defs`."""
        made = super().generate(schema, mode)
        for definition in made.get("$defs", {}).values():
            definition.pop("title", None)
        for name, argument in made["properties"].items():
            # pydantic 2.11 gives arguments their titles without asking field_title_should_be_set.
            if argument.get("title") == self.get_title_from_name(name):
                del argument["title"]
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never, except for titles that somebody wrote."""
        return False

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Nothing: that a default is not JSON is no fault."""

    def encode_default(self, dft: Any) -> Any:
        """As pydantic's, without NaN and infinity."""
        try:
            return from_json(to_json(super().encode_default(dft)), allow_inf_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from error


def _offered_name(parameter: Parameter) -> str:
    """What the agent calls a parameter: its name, or the alias its field gives it."""
    is_required = parameter.default is Parameter.empty
    field = (
        FieldInfo.from_annotation(parameter.annotation)
        if is_required
        else FieldInfo.from_annotated_attribute(parameter.annotation, parameter.default)
    )
    alias = field.validation_alias or parameter.name
    if isinstance(alias, str):
        return alias
    raise _UnfitError(f"the parameter {parameter.name!r} has several aliases, and a schema lists one name")
