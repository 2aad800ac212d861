"""The request of a chat completion as the input of an agent's run.

The agent's app validates what this module makes, and judges its messages as those of any caller.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from ag_ui.core import RunAgentInput
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from agui_client._serving.served_request import RequestRefusedError
from agui_client.asgi._request_body import input_of, parsed

Part: TypeAlias = dict[str, Any]

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,", re.ASCII)
_AUDIO = {"mp3": "audio/mpeg", "wav": "audio/wav"}
_OWN = frozenset({"messages", "tools", "stream", "stream_options", "n"})
"""Members of a request that are not passed on in `forwardedProps`."""


class _Function(BaseModel):
    name: str
    description: str = ""
    parameters: Any = None


class _Tool(BaseModel):
    type: Literal["function"]
    function: _Function


class _Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[Any] | None = None
    tool_call_id: str | None = None


class _StreamOptions(BaseModel):
    include_usage: bool = False


class ChatRequest(BaseModel):
    """The members of a request that are read here; the agent gets the others."""

    model: str
    messages: list[_Message]
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    tools: list[_Tool] | None = None
    tool_choice: Any = None
    metadata: dict[str, Any] | None = None
    n: int | None = 1

    @property
    def wants_usage(self) -> bool:
        """Whether a streamed reply ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage


async def chat_request_of(body: bytes, *, max_bytes: int) -> tuple[ChatRequest, RunAgentInput]:
    """Parse the body of a request for a chat completion.

    Args:
        max_bytes: The size of the largest body that is accepted.

    Returns:
        The request, and the input of the run for it.

    Raises:
        RequestRefusedError: The body is not a request that can be served.
    """
    asked, members = await parsed(body, _validated, max_bytes=max_bytes)
    return asked, await input_of(to_json(_input_of(asked, members)), max_bytes=max_bytes)


def _validated(data: Any) -> tuple[ChatRequest, dict[str, Any]]:
    try:
        asked = ChatRequest.model_validate(data)
    except ValidationError as invalid:
        fault = invalid.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise RequestRefusedError(400, f"{place or 'the body'}: {fault['msg']}") from None
    if asked.n not in (None, 1):
        raise RequestRefusedError(400, "n: an agent gives one reply; leave n out")
    return asked, data


def _input_of(asked: ChatRequest, members: dict[str, Any]) -> dict[str, Any]:
    ordinals = Counter[str]()
    messages = list[dict[str, Any]]()
    for message in asked.messages:
        # The same in each request of a conversation, so that a stored thread knows the messages that it has.
        messages.append({"id": f"{message.role}-{ordinals[message.role]}", **_message(message)})
        ordinals[message.role] += 1
    tools = [] if asked.tool_choice == "none" else [each.function.model_dump() for each in asked.tools or ()]
    thread_id = (asked.metadata or {}).get("thread_id")
    return {
        "threadId": uuid4().hex if thread_id is None else thread_id,
        "runId": f"chatcmpl-{uuid4().hex}",
        "messages": messages,
        "tools": tools,
        "forwardedProps": {key: each for key, each in members.items() if key not in _OWN},
    }


def _message(message: _Message) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.name is not None and message.role != "tool":
        made["name"] = message.name
    if message.tool_calls:
        made["toolCalls"] = message.tool_calls
    if message.role == "tool":
        made["toolCallId"] = message.tool_call_id
    return made


def _content(message: _Message) -> Any:
    """Return the content of a message; only users and tools have other parts than text."""
    content = message.content
    if not isinstance(content, list):
        return content
    if message.role in ("user", "tool"):
        return [_part(each) for each in content]
    return "".join(str(each.get("text", each.get("refusal", ""))) for each in content)


def _part(part: Part) -> Part:
    """Return a part of a message as the protocol has it.

    Raises:
        RequestRefusedError: The protocol has none such.
    """
    match part:
        case {"type": "text", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return {"type": "image", "source": _source(url)}
        case {"type": "input_audio", "input_audio": {"data": data, "format": str(kind)}}:
            source = {"type": "data", "value": data, "mimeType": _AUDIO.get(kind, f"audio/{kind}")}
            return {"type": "audio", "source": source}
        case {"type": "file", "file": {"file_data": str(data), **rest}}:
            return {"type": "document", "source": _source(data), "metadata": _named(rest.get("filename"))}
        case {"type": "file", "file": {"file_id": file_id}}:
            return {"type": "document", "source": {"type": "file", "value": file_id}}
        case _:
            raise RequestRefusedError(400, f"messages: a part of type {json.dumps(part.get('type'))} is not supported")


def _named(filename: object) -> Mapping[str, Any] | None:
    return None if filename is None else {"filename": filename}


def _source(url: str) -> Part:
    """Return the source of a part: the data of a data URL, or the address."""
    if found := _DATA_URL.match(url):
        return {"type": "data", "value": url[found.end() :], "mimeType": found[1] or "application/octet-stream"}
    return {"type": "url", "value": url}
