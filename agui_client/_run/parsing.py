"""Structured answers: reading a result as a type of the application (`RunResult.parse`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ag_ui.core import AssistantMessage, ReasoningMessage, ToolMessage
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from agui_client._protocol.schema import is_object
from agui_client.errors import ParseError

if TYPE_CHECKING:
    from agui_client._run.result import RunResult

_FENCED = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_SHOWN = 300
_FEW = 3


def parse(result: RunResult, shape: Any) -> Any:
    """Read a result as a type: the first of its answers that fits.

    Args:
        result: The result.
        shape: Any type that pydantic can validate.

    Raises:
        ParseError: None of them fits.
    """
    adapter, misfits = TypeAdapter[Any](shape), list[tuple[str, ValidationError]]()
    for answer in _answers(result):
        try:
            return adapter.validate_json(answer)
        except ValidationError as error:
            misfits.append((answer, error))
    wanted = shape.__name__ if isinstance(shape, type) else shape
    if not misfits:
        raise ParseError(f"there is no {wanted}: the run has no result, no text, and no call of an output tool")
    # JSON that does not fit says more than text that is no JSON.
    answer, misfit = next((each for each in misfits if each[1].errors()[0]["type"] != "json_invalid"), misfits[-1])
    why = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}".lstrip(": ") for each in misfit.errors()[:_FEW])
    shown = answer if len(answer) <= _SHOWN else f"{answer[:_SHOWN]}…"
    raise ParseError(f"the answer is no {wanted}: {why}; this arrived: {shown!r}") from misfit


def _answers(result: RunResult) -> Iterator[str]:
    """Yield whatever may be the answer as JSON, the most certain first."""
    if result.result is not None:
        yield to_json(result.result).decode()
    if result.text:
        yield result.text
        yield from _FENCED.findall(result.text)
    for arguments in _last_arguments(result):
        yield arguments
        # pydantic-ai wraps what is no object.
        with suppress(ValueError):
            wrapped = from_json(arguments)
            if is_object(wrapped) and wrapped.keys() == {"response"}:
                yield to_json(wrapped["response"]).decode()


def _last_arguments(result: RunResult) -> Iterator[str]:
    """Yield the arguments of the calls with which the agent ended the run: it answered them, and said no more."""
    executed = {each.tool_call_id for each in result.tool_executions}
    answered: set[str] = set()
    for message in reversed(result.new_messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AssistantMessage) and message.tool_calls:
            calls = [call for call in message.tool_calls if call.id in answered - executed]
            yield from (call.function.arguments for call in calls)
            return
        elif not isinstance(message, ReasoningMessage):
            return
    # A server that repeats the id of an earlier call calls anew in the earlier message.
    called = set(result.called_ids) - executed - {call.id for call in result.pending_tool_calls}
    for message in result.messages:
        if isinstance(message, AssistantMessage):
            yield from (call.function.arguments for call in message.tool_calls or () if call.id in called)
