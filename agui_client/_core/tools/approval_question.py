"""The question that a person reads who approves a tool call, made of the call's arguments: `@tool(ask=...)`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from string import Formatter
from typing import Any, TypeAlias

from pydantic_core import to_json

from agui_client._core.ground.plain_text import cut_short
from agui_client.errors import UsageError

ApprovalQuestion: TypeAlias = str | Callable[[Mapping[str, Any]], str]
"""A text with the names of arguments in braces, or a function of the arguments, by name and as JSON."""

_LONGEST = 200
"""The characters of an argument that a question shows; the whole call is shown below it."""


class _Shown(dict[str, Any]):
    """Arguments as they are shown in a text; one that was left out is an ellipsis."""

    def __missing__(self, name: str) -> str:
        return "…"


def check_question(name: str, question: object, parameters: Collection[str]) -> None:
    """Check the question of a tool.

    Args:
        name: The name of the tool.
        question: The question.
        parameters: The names of the tool's parameters for the agent.

    Raises:
        UsageError: It is neither a text nor a function, or names something that is no argument.
    """
    if not isinstance(question, str):
        if not callable(question):
            raise UsageError(f"ask of {name!r} is a text or a function of the arguments, not {question!r}")
        return
    try:
        named = [field for _, field, _, _ in Formatter().parse(question) if field is not None]
    except ValueError as error:
        raise UsageError(f"ask of {name!r} cannot be read: {error}; write {{{{ for a brace") from None
    if unknown := [each for each in named if each not in parameters]:
        takes = ", ".join(parameters) or "no arguments"
        raise UsageError(f"ask of {name!r} names {unknown[0]!r}, which is no argument; the tool takes {takes}")


def question_text(question: ApprovalQuestion, arguments: Mapping[str, Any]) -> str:
    """Return the question about one call.

    Args:
        question: The question of the tool.
        arguments: The arguments of the call, as JSON.
    """
    if callable(question):
        return question(arguments)
    return question.format_map(_Shown({name: _shown(value) for name, value in arguments.items()}))


def _shown(value: Any) -> Any:
    """Return an argument as a text shows it: a number as it is, for a format such as `{price:.2f}`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return cut_short(value if isinstance(value, str) else to_json(value).decode(), _LONGEST)
