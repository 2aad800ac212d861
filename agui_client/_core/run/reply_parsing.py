"""Reading the reply of an agent as a type of the application's.

To change

- a place where `parse` of a result looks for a reply: this module; of runs only, `result_replies` here
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from json import JSONDecoder
from typing import Any

from ag_ui.core import AssistantMessage, ReasoningMessage, ToolMessage
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from agui_client._core.ground.json_reading import check_levels
from agui_client._core.ground.plain_text import cut_short
from agui_client._core.ground.run_content import RunContent
from agui_client._core.ground.type_adapters import type_adapter
from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.schema import is_object
from agui_client.errors import ParseError

_OPENINGS = re.compile(r"[{\[]")
_LOOKS = 16
"""The number of brackets at which JSON is looked for in prose: each look may read all of the text."""
_FENCED = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_THOUGHTS = re.compile(
    r"<(think|thinking|thought|reasoning)>.*?(?:</\1>|\Z)|\A(?:(?!<think>).)*?</think>", re.DOTALL | re.IGNORECASE
)
"""Thoughts, whose beginning or end may be missing: some servers cut one of the tags off."""
_QUOTED = 300
_FEW = 3


def written_replies(result: Any, text: str) -> Iterator[str]:
    """Yield whatever may be a reply as JSON, the most certain first.

    Args:
        result: The result of the run, any JSON value; None if there is none.
        text: The text of the reply.
    """
    if result is not None:
        yield to_json(result).decode()
    if text:
        yield text
        # Models that write their thoughts into the text draft the reply there. JSON may have such a tag in a text.
        text = _THOUGHTS.sub("", text)
        yield text
        yield from _FENCED.findall(text)
        yield from _values_in(text)


def _values_in(text: str) -> Iterator[str]:
    """Yield the JSON objects and lists that stand in prose, as far as a few looks find them."""
    decoder, end = JSONDecoder(), 0
    for start in islice(_OPENINGS.finditer(text), _LOOKS):
        if start.start() < end:
            continue
        with suppress(ValueError, RecursionError):
            check_levels(text[start.start() :])
            _, end = decoder.raw_decode(text, start.start())
            yield text[start.start() : end]


def result_replies(result: RunContent, executed: Collection[str], called: Collection[str]) -> Iterator[str]:
    """Yield whatever in the result of a call may be the reply as JSON, the most certain first.

    Args:
        executed: The ids of the tool calls that were executed here.
        called: The ids of the tool calls that the agent began in the last run.
    """
    yield from written_replies(result.result, result.text)
    for arguments in _last_arguments(result, executed, called):
        yield arguments
        # pydantic-ai wraps what is not an object.
        with suppress(ValueError):
            wrapped = from_json(arguments)
            if is_object(wrapped) and wrapped.keys() == {"response"}:
                yield to_json(wrapped["response"]).decode()


def _last_arguments(result: RunContent, executed: Collection[str], called: Collection[str]) -> Iterator[str]:
    """Yield the arguments of the calls with which the agent ended the run: it executed them, and wrote nothing more."""
    answered: set[str] = set()
    for message in reversed(result.new_messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AssistantMessage) and message.tool_calls:
            calls = [call for call in message.tool_calls if call.id in answered and call.id not in executed]
            yield from (call.function.arguments for call in calls)
            return
        elif not isinstance(message, ReasoningMessage):
            return
    # A server that repeats the id of an earlier call calls anew in the earlier message.
    own = {*called} - {*executed} - {call.id for call in result.pending_tool_calls}
    yield from (call.function.arguments for _, call in tool_calls_in(result.messages) if call.id in own)


def read_reply(replies: Iterable[str], shape: Any) -> Any:
    """Read a reply as a type: the first one that fits.

    Args:
        replies: The replies as JSON, the most certain first.
        shape: Any type that pydantic can validate.

    Raises:
        ParseError: None of them fits.
        UsageError: pydantic cannot read the type.
    """
    adapter, misfits = type_adapter(shape, "parse", is_read_now=True), list[tuple[str, ValidationError]]()
    for reply in replies:
        try:
            return adapter.validate_json(reply)
        except ValidationError as error:
            misfits.append((reply, error))
    wanted = shape.__name__ if isinstance(shape, type) else shape
    if not misfits:
        raise ParseError(f"there is no {wanted}: the run has no result, no text, and no call of an output tool")
    # JSON that does not fit says more than text that is not JSON.
    reply, misfit = next((each for each in misfits if each[1].errors()[0]["type"] != "json_invalid"), misfits[-1])
    why = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}".lstrip(": ") for each in misfit.errors()[:_FEW])
    # A member of a team is sent these words, so that a recording with other ones would not match its prompt.
    raise ParseError(f"the answer is no {wanted}: {why}; this arrived: {cut_short(reply, _QUOTED)!r}") from misfit
