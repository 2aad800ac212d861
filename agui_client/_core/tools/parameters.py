"""Parameters of a function that is offered as a tool: their types as a JSON Schema and as a validator.

Pydantic makes both from one signature, so that what is advertised is what is accepted (SEC-2). A function that cannot
be offered to an agent is refused here, when it is decorated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from types import CodeType
from typing import Any, cast, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, ErrorDetails, PydanticSerializationError, from_json, to_json

from agui_client._core.protocol.schema import is_object
from agui_client._core.tools.context import ToolContext
from agui_client._core.tools.json_schema import as_object, misfit
from agui_client._core.tools.written_values import MISSING, Writer, aliases_in
from agui_client.errors import UsageError

_RECEIVERS = ("self", "cls")
_GIVEN_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_MASK = b"**********"
"""The JSON that pydantic writes for a secret."""
_WORDS = {
    "missing_keyword_only_argument": "needs a value",
    "unexpected_keyword_argument": "there is no such name",
}
"""Words for kinds of errors whose messages are about Python's calls; an agent writes JSON."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function."""

    has_receiver: bool
    """Whether the function is a method that has yet to be taken from an instance."""
    has_context: bool
    """Whether the function takes a `ToolContext` first."""
    adapter: TypeAdapter[dict[str, Any]]
    """The validator of a JSON object; it gives the function's keyword arguments, defaults included."""
    schema: dict[str, Any]
    """The JSON Schema of that object."""
    names: dict[str, str]
    """The names of the function's parameters, by those that the agent uses."""
    writer: Writer
    """Writes the function's keyword arguments as JSON."""

    @classmethod
    def from_function(cls, function: Callable[..., object], tool_name: str, descriptions: dict[str, str]) -> Parameters:
        """Read a function's signature.

        Args:
            function: The function, or a bound method.
            tool_name: The tool's name in errors.
            descriptions: The docstring's descriptions of parameters, by name; those of annotations come first.

        Raises:
            UsageError: The function cannot be offered to an agent.
        """
        try:
            parameters = _resolved(function)
            has_receiver = bool(parameters) and parameters[0].name in _RECEIVERS
            has_context = any(_is_context(each) for each in parameters[has_receiver:][:1])
            arguments = parameters[has_receiver + has_context :]
            for parameter in arguments:
                _check(parameter)
            adapter, schema = _fitted(arguments)
        except UsageError as unfit:
            raise UsageError(f"{tool_name!r} cannot be a tool: {unfit}") from unfit.__cause__
        names = dict(zip(schema["properties"], (each.name for each in arguments), strict=True))
        descriptions = {**descriptions, **{each.name: text for each in arguments if (text := _annotated(each))}}
        for offered, name in names.items():
            if description := descriptions.get(name):
                # Field(description=...) comes first.
                schema["properties"][offered].setdefault("description", description)
        return cls(has_receiver, has_context, adapter, schema, names, Writer(aliases_in(adapter.core_schema)))

    def bind(self, arguments: str | Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Check the arguments of a call by the types.

        What fits without loss is accepted, as pydantic does with JSON: models write "3" for 3 and 3.0 for 3, and
        refusing that would cost a round and change nothing. 3.5 for an integer is refused, and so is 3 for a string.

        Args:
            arguments: The agent's JSON text, or a person's edits.

        Returns:
            The function's keyword arguments as JSON, by the names that the agent uses; and these arguments themselves.

        Raises:
            ToolError: They are not a JSON object, or do not fit; each that is wrong is named.
        """
        sent = as_object(arguments)
        try:
            values = self.adapter.validate_json(to_json(sent))
        except ValidationError as error:
            raise misfit("; ".join(map(_problem, error.errors()))) from None
        # Those that were sent come first, in their order.
        order = dict.fromkeys([*(name for name in sent if name in self.names), *self.names])
        given = [(each, values.get(self.names[each], MISSING), sent.get(each, MISSING)) for each in order]
        shown = {name: self.writer.write(value, as_sent) for name, value, as_sent in given}
        return {name: value for name, value in shown.items() if value is not MISSING}, values


def _problem(error: ErrorDetails) -> str:
    """Describe an error by its place, such as `shape.points.2`, and what is wrong there."""
    problem = _WORDS.get(error["type"], error["msg"].removeprefix("Value error, "))
    return f"{'.'.join(map(str, error['loc']))!r}: {problem}"


def takes_context(function: Callable[..., object]) -> bool:
    """Check whether a function's first parameter is annotated as a `ToolContext`."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and (_is_context(first) or str(first.annotation).endswith(ToolContext.__name__))


def _is_context(parameter: Parameter) -> bool:
    return parameter.annotation is ToolContext and parameter.kind <= Parameter.POSITIONAL_OR_KEYWORD


def _annotated(parameter: Parameter) -> str | None:
    """Return the description in `Annotated[str, "..."]` or `Annotated[str, Doc("...")]` (PEP 727); None without one."""
    metadata: Sequence[object] = getattr(parameter.annotation, "__metadata__", ())
    said = (getattr(each, "documentation", each) for each in metadata)
    return next((each for each in said if isinstance(each, str)), None)


def _check(parameter: Parameter) -> None:
    """Refuse a parameter that no agent could give a value for."""
    named = f"the parameter {parameter.name!r}"
    if parameter.annotation is ToolContext:
        raise UsageError(f"{named} is a ToolContext, which has to be the first positional parameter")
    if parameter.kind not in _GIVEN_BY_NAME:
        raise UsageError(f"{named} is {parameter.kind.description}, and an agent gives each argument by its name")
    if parameter.annotation is Parameter.empty:
        raise UsageError(f"{named} has no type; annotate it, with Any if any value is accepted")


def _resolved(function: Callable[..., object]) -> list[Parameter]:
    """Return the parameters, with types where annotations were postponed."""
    plain = inspect.unwrap(function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
        # The return type is not resolved: it is often imported for type checkers only.
        annotated = type("Annotated", (), {"__annotations__": {each.name: each.annotation for each in parameters}})
        hints = get_type_hints(annotated, plain.__globals__, _local_names(plain.__code__), include_extras=True)
    except Exception as error:
        how = "import the names that annotations use outside `if TYPE_CHECKING:`, before the tool is made"
        raise UsageError(f"an annotation cannot be read ({error}); {how}") from error
    return [each.replace(annotation=hints[each.name]) for each in parameters]


def _local_names(code: CodeType) -> dict[str, Any]:
    """Return the names visible where a function is being defined: locals of the frames whose code holds its code."""
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
        for parameter in parameters if len(parameters) > 1 else ():
            _fitted([parameter])  # raises the error that names the unfit one alone
        named = ", ".join(repr(each.name) for each in parameters)
        raise UsageError(f"no JSON schema can be made for the parameter {named}: {error}") from error


def _validator(parameters: Sequence[Parameter]) -> tuple[TypeAdapter[dict[str, Any]], dict[str, Any]]:
    """Make a validator that returns the function's keyword arguments, and its schema."""

    def collect(**values: Any) -> dict[str, Any]:
        """Return the keyword arguments."""
        return values

    named = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    collect.__dict__["__signature__"] = inspect.Signature(named)
    collect.__annotations__ = {each.name: each.annotation for each in parameters}
    function: Any = collect
    adapter = TypeAdapter[dict[str, Any]](function, config=ConfigDict(extra="forbid", allow_inf_nan=False))
    if _is_read_once(adapter.core_schema):
        raise UsageError("it can be read only once; take a list")
    return adapter, from_json(to_json(adapter.json_schema(schema_generator=_Schema)), allow_inf_nan=False)


def _is_read_once(schema: object) -> bool:
    """Whether any part is read like an `Iterable` or `Generator`: nobody could look at it before the function does."""
    if is_object(schema):
        return schema.get("type") == "generator" or any(map(_is_read_once, schema.values()))
    return isinstance(schema, list | tuple) and any(map(_is_read_once, cast("Sequence[object]", schema)))


class _Schema(GenerateJsonSchema):
    """Leaves out what is of no use to an agent: titles made from names, and defaults without a JSON form."""

    def generate(self, schema: CoreSchema, mode: Any = "validation") -> dict[str, Any]:
        """Generate pydantic's schema, without the titles of classes: their names are the keys of `$defs`."""
        made = super().generate(schema, mode)
        for definition in made.get("$defs", {}).values():
            definition.pop("title", None)
        for name, argument in made["properties"].items():
            # pydantic 2.11 gives arguments their titles without asking field_title_should_be_set.
            if argument.get("title") == self.get_title_from_name(name):
                del argument["title"]
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False: only titles that a person wrote stay."""
        return False

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Ignored: a default need not be JSON."""

    def encode_default(self, dft: Any) -> Any:
        """Encode a default as pydantic does, but not NaN, infinity and masked secrets."""
        encoded = to_json(super().encode_default(dft))
        if _MASK in encoded:
            raise PydanticSerializationError("a secret")
        try:
            return from_json(encoded, allow_inf_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from error
