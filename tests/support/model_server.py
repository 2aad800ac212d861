"""A server that speaks OpenAI's two protocols, chat completions and responses, with a script for a model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agui_client.testing import serve

ARGUMENTS = ('{"city": ', '"Oslo"}')
"""The arguments of the model's call, in pieces."""
WORDS = ("18 ", "degrees.")
"""The model's answer, in pieces."""


@dataclass
class ModelServer:
    """A model that calls the first tool it is offered, and then answers."""

    url: str = ""
    """The address for OPENAI_BASE_URL and OLLAMA_BASE_URL."""
    arguments: Sequence[str] = ARGUMENTS
    """The arguments of the model's calls, in pieces."""
    refusal: int | None = None
    """The status of every answer; None for a model that works."""
    requests: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    """The path and the body of each request."""
    keys: list[str | None] = field(default_factory=list["str | None"])
    """The credentials of each request."""

    async def answer(self, request: Request) -> Response:
        """Answer one request with a stream."""
        body = json.loads(await request.body())
        self.requests.append((request.url.path, body))
        self.keys.append(request.headers.get("authorization"))
        if self.refusal is not None:
            return JSONResponse({"error": {"message": "no"}}, status_code=self.refusal)
        write = _completion if request.url.path.endswith("/completions") else _response
        script = write(body, self.arguments)

        async def lines() -> AsyncIterator[str]:
            for chunk in script:
                yield f"event: {chunk['type']}\n" if "type" in chunk else ""
                yield f"data: {json.dumps(chunk)}\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")


@contextmanager
def model_server(refusal: int | None = None) -> Generator[ModelServer]:
    """Serve the model on loopback."""
    model = ModelServer(refusal=refusal)
    paths = ("/v1/chat/completions", "/v1/responses")
    app: Any = Starlette(routes=[Route(path, model.answer, methods=["POST"]) for path in paths])
    with serve(app) as server:
        model.url = f"{server.url}v1"
        yield model


def _completion(body: dict[str, Any], arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    common = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    if body.get("tools") and body["messages"][-1]["role"] != "tool":
        call = {"name": body["tools"][0]["function"]["name"], "arguments": ""}
        call_id = f"c{len(body['messages'])}"
        calls = [{"index": 0, "id": call_id, "type": "function", "function": call}]
        yield chunk({"role": "assistant", "tool_calls": calls})
        for piece in arguments:
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls")
    else:
        for piece in WORDS:
            yield chunk({"role": "assistant", "content": piece})
        yield chunk({}, "stop")
    yield {**common, "choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}}


def _response(body: dict[str, Any], arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    response: dict[str, Any] = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    yield {"type": "response.created", "sequence_number": 0, "response": {**response, "status": "in_progress"}}
    place = {"output_index": 0, "sequence_number": 1}
    if body.get("tools") and body["input"][-1].get("type") != "function_call_output":
        call_id, name = f"c{len(body['input'])}", body["tools"][0]["name"]
        item: dict[str, Any] = {"type": "function_call", "id": "f1", "call_id": call_id, "name": name, "arguments": ""}
        yield {"type": "response.output_item.added", "item": item, **place}
        for piece in arguments:
            yield {"type": "response.function_call_arguments.delta", "item_id": "f1", "delta": piece, **place}
        done: dict[str, Any] = {**item, "arguments": "".join(arguments), "status": "completed"}
        yield {"type": "response.output_item.done", "item": done, **place}
    else:
        item = {"type": "message", "id": "m1", "role": "assistant", "status": "in_progress", "content": []}
        yield {"type": "response.output_item.added", "item": item, **place}
        part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
        where = {"item_id": "m1", "content_index": 0, **place}
        yield {"type": "response.content_part.added", "part": part, **where}
        for piece in WORDS:
            yield {"type": "response.output_text.delta", "delta": piece, "logprobs": [], **where}
        yield {"type": "response.output_text.done", "text": "".join(WORDS), "logprobs": [], **where}
        done = {**item, "status": "completed", "content": [{**part, "text": "".join(WORDS)}]}
        yield {"type": "response.output_item.done", "item": done, **place}
    usage = {"input_tokens": 11, "output_tokens": 3, "total_tokens": 14, **details}
    completed = {**response, "status": "completed", "usage": usage}
    yield {"type": "response.completed", "sequence_number": 9, "response": completed}
