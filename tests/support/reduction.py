"""Events by their short names, and a reducer that has seen some: for the tests of reduction."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from ag_ui.core import Event, FunctionCall, Message, ToolCall
from pydantic import TypeAdapter

from agui_client import Reducer

Wire = dict[str, Any]

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
IMAGE: Wire = {
    "type": "image",
    "source": {"type": "url", "value": "https://example.com/a.png", "mimeType": "image/png"},
}


def event(type: str, **fields: Any) -> Event:  # noqa: A002 - the protocol's word
    return _EVENT.validate_python({"type": type, **fields})


def start(message_id: str, **fields: Any) -> Event:
    return event("TEXT_MESSAGE_START", messageId=message_id, **fields)


def content(message_id: str, delta: str, **fields: Any) -> Event:
    return event("TEXT_MESSAGE_CONTENT", messageId=message_id, delta=delta, **fields)


def end(message_id: str, **fields: Any) -> Event:
    return event("TEXT_MESSAGE_END", messageId=message_id, **fields)


def thought(part: str, message_id: str, **fields: Any) -> Event:
    return event(f"REASONING_MESSAGE_{part}", messageId=message_id, **fields)


def call(tool_call_id: str, parent: str | None = None, **fields: Any) -> Event:
    parents = {} if parent is None else {"parentMessageId": parent}
    return event("TOOL_CALL_START", toolCallId=tool_call_id, toolCallName="search", **parents, **fields)


def args(tool_call_id: str, delta: str, **fields: Any) -> Event:
    return event("TOOL_CALL_ARGS", toolCallId=tool_call_id, delta=delta, **fields)


def result(message_id: str, tool_call_id: str, content: Any = "found", **fields: Any) -> Event:
    return event("TOOL_CALL_RESULT", messageId=message_id, toolCallId=tool_call_id, content=content, **fields)


def activity(message_id: str, content: Wire, **fields: Any) -> Event:
    return event("ACTIVITY_SNAPSHOT", **{"messageId": message_id, "activityType": "plan", "content": content, **fields})


def activity_delta(message_id: str, *patch: Wire, **fields: Any) -> Event:
    return event("ACTIVITY_DELTA", **{"messageId": message_id, "activityType": "plan", "patch": [*patch], **fields})


def state_delta(*patch: Wire, **fields: Any) -> Event:
    return event("STATE_DELTA", delta=[*patch], **fields)


def snapshot(*messages: Message) -> Event:
    return event("MESSAGES_SNAPSHOT", messages=[message.model_dump(by_alias=True) for message in messages])


def encrypted(subtype: str, entity_id: str, value: str = "c2VjcmV0") -> Event:
    return event("REASONING_ENCRYPTED_VALUE", subtype=subtype, entityId=entity_id, encryptedValue=value)


def search(tool_call_id: str, arguments: str = "", **fields: Any) -> ToolCall:
    return ToolCall(id=tool_call_id, function=FunctionCall(name="search", arguments=arguments), **fields)


def reduced(*events: Event, messages: tuple[Message, ...] = (), state: Any = None) -> Reducer:
    reducer = Reducer(messages, {} if state is None else state)
    for each in events:
        reducer.feed(each)
    return reducer


def calls_of(work: Callable[[], object]) -> int:
    """The number of calls that a piece of work makes of functions in Python: the same under any load."""
    calls = 0

    def count(frame: FrameType, what: str, detail: object) -> None:
        nonlocal calls
        calls += what == "call"

    # A collection would call what earlier tests have left; one before takes seconds in a long session.
    collects = gc.isenabled()
    gc.disable()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        if collects:
            gc.enable()
    return calls


def wire(reducer: Reducer) -> list[Wire]:
    """The messages as the next input would carry them."""
    return [message.model_dump(by_alias=True) for message in reducer.messages]


def warned(reducer: Reducer) -> list[tuple[str, str]]:
    return [(warning.rule, warning.message) for warning in reducer.warnings]
