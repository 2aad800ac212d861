"""The streams that are measured: their bytes, what serves them from memory, and the floor they are held against."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import httpx
from ag_ui.core import Event
from httpx_sse import EventSource
from pydantic import TypeAdapter

from agui_client import HttpAgent
from programs.benchmarks.measure import Work

CHUNK_BYTES = 64 * 1024
URL = "http://agent.test/"
THREAD_ID = "thread-1"
RUN_ID = "run-1"

_events: TypeAdapter[Event] = TypeAdapter(Event)


class Served(httpx.AsyncByteStream):
    """Pieces of a response's body, as they come out of a socket that always has data."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


class Stream:
    """A run of an agent, recorded.

    Args:
        events: What comes between RUN_STARTED and RUN_FINISHED, as SSE frames.
        is_flushed: Whether each event comes alone, as servers write them; otherwise reads are full.
    """

    def __init__(self, events: Sequence[bytes], *, is_flushed: bool = False) -> None:
        self.event_count = len(events) + 2
        frames = [started(), *events, finished()]
        body = b"".join(frames)
        chunks = [body[start : start + CHUNK_BYTES] for start in range(0, len(body), CHUNK_BYTES)]
        self._pieces = frames if is_flushed else chunks
        self._client = client_of(self._pieces)

    def agent(self) -> HttpAgent:
        """A new conversation with the agent that answers so."""
        return HttpAgent(URL, thread_id=THREAD_ID, http_client=self._client)

    def floor(self) -> Work:
        """What nobody can do without: SSE frames from httpx-sse, validated as events."""
        return lambda: self.expect(asyncio.run(read_bare(self._client, URL)))

    def iterated(self) -> Work:
        """The same through the client."""
        return lambda: self.expect(asyncio.run(iterate(self.agent())))

    def expect(self, count: int) -> None:
        """What is fast because it stopped early does not count."""
        if count != self.event_count:
            raise AssertionError(f"{count} events arrived of {self.event_count}")


def client_of(pieces: Iterable[bytes]) -> httpx.AsyncClient:
    """An HTTP client whose every request is answered with an event stream of these pieces."""
    headers = {"content-type": "text/event-stream"}
    return httpx.AsyncClient(
        transport=httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, stream=Served(pieces)))
    )


async def read_bare(client: httpx.AsyncClient, url: str, body: Any = None) -> int:
    """The number of events that one POST brings, each validated."""
    count = 0
    async with client.stream("POST", url, json=body) as response:
        async for sse in EventSource(response).aiter_sse():
            _events.validate_json(sse.data, strict=True, by_alias=True, by_name=False)
            count += 1
    return count


async def iterate(agent: HttpAgent) -> int:
    """The number of events of one run."""
    count = 0
    async with agent.stream(run_id=RUN_ID) as run:
        async for _ in run:
            count += 1
    return count


def frame(event_type: str, **members: Any) -> bytes:
    """One event as servers write it."""
    return b"data: %b\n\n" % json.dumps({"type": event_type, **members}, separators=(",", ":")).encode()


def started() -> bytes:
    """The first frame of a run."""
    return frame("RUN_STARTED", threadId=THREAD_ID, runId=RUN_ID)


def finished() -> bytes:
    """Its last frame."""
    return frame("RUN_FINISHED", threadId=THREAD_ID, runId=RUN_ID)


def text(
    deltas: int, *, message_id: str = "message-1", carrying: Callable[[int], dict[str, Any]] | None = None
) -> list[bytes]:
    """A text message in so many deltas, each with the members that `carrying` gives for its number."""
    return [
        frame("TEXT_MESSAGE_START", messageId=message_id, role="assistant"),
        *(_content(message_id, index, carrying(index) if carrying else {}) for index in range(deltas)),
        frame("TEXT_MESSAGE_END", messageId=message_id),
    ]


def text_chunks(deltas: int) -> list[bytes]:
    """The same text message in chunk events."""
    return [frame("TEXT_MESSAGE_CHUNK", messageId="message-1", delta=f"hello {index}") for index in range(deltas)]


def tool_call(deltas: int) -> list[bytes]:
    """A tool call whose arguments come in so many deltas."""
    call = {"toolCallId": "call-1"}
    return [
        frame("TOOL_CALL_START", **call, toolCallName="write_file"),
        frame("TOOL_CALL_ARGS", **call, delta='{"text": "'),
        *(frame("TOOL_CALL_ARGS", **call, delta=f"hello {index} ") for index in range(deltas)),
        frame("TOOL_CALL_ARGS", **call, delta='"}'),
        frame("TOOL_CALL_END", **call),
    ]


def raw_event(index: int) -> dict[str, Any]:
    """What the provider said, on an event."""
    return {"rawEvent": _raw_event(index)}


def metadata(index: int) -> dict[str, Any]:
    """What a server may say about an event: when, and something of its own."""
    return {"timestamp": 1_800_000_000_000 + index, "metadata": {"acme.trace": f"span-{index}", "acme.step": None}}


def _content(message_id: str, index: int, carried: dict[str, Any]) -> bytes:
    return frame("TEXT_MESSAGE_CONTENT", messageId=message_id, delta=f"hello {index}", **carried)


def _raw_event(index: int) -> dict[str, Any]:
    """2 kB of what an agent framework reports for each token: deeply nested, with ids and nulls."""
    checkpoint = f"chat_node:5f0c2f0e-6c1b-4b1d-9a57-{index:012d}"
    chunk: dict[str, Any] = {
        "content": f"hello {index}",
        "additional_kwargs": {"refusal": None, "function_call": None},
        "response_metadata": {"finish_reason": None, "system_fingerprint": "fp_06737a9306", "service_tier": None},
        "type": "AIMessageChunk",
        "name": None,
        "id": "run--1b6a8a6e-6c0e-4f53-9f7f-3c8e8cb8f8a2",
        "example": False,
        "tool_calls": [],
        "invalid_tool_calls": [],
        "usage_metadata": None,
        "tool_call_chunks": [],
    }
    metadata: dict[str, Any] = {
        "langgraph_version": "0.6.7",
        "langgraph_plan": "developer",
        "langgraph_host": "self-hosted",
        "langgraph_api_url": "http://127.0.0.1:2024",
        "langgraph_request_id": "d7e1f5bd-7d5b-4f37-8f6e-8f3ad3fbb9a1",
        "langgraph_auth_user_id": "",
        "langgraph_step": 7,
        "langgraph_node": "chat_node",
        "langgraph_triggers": ["branch:to:chat_node", "start:chat_node"],
        "langgraph_path": ["__pregel_pull", "chat_node"],
        "langgraph_checkpoint_ns": checkpoint,
        "checkpoint_ns": checkpoint,
        "assistant_id": "fe096781-5601-53d2-b2f6-0d3403f7e9ca",
        "graph_id": "agent",
        "run_attempt": 1,
        "thread_id": "1f0d6a2c-2f35-4a0a-8d3e-6f6a5b2f1c11",
        "run_id": "1f0d6a2d-44d1-6a2e-b9f0-0b8a7f6d5e4c",
        "user_id": None,
        "created_by": "system",
        "from_studio": False,
        "ls_provider": "openai",
        "ls_model_name": "gpt-4.1-mini",
        "ls_model_type": "chat",
        "ls_temperature": None,
        "ls_max_tokens": None,
        "user-agent": "langgraph-sdk-js/0.1.4",
        "x-request-id": "0c3f3a53-9a8f-4f67-8a55-1d7b8a1f5a39",
        "x-forwarded-for": "10.0.12.7",
        "copilotkit": {"actions": [], "interceptedToolCalls": None, "originalAIMessageId": None},
        "emit": {"messages": True, "tool_calls": True, "intermediate_state": [{"tool": None, "state_key": "steps"}]},
    }
    return {
        "event": "on_chat_model_stream",
        "name": "ChatOpenAI",
        "run_id": "1b6a8a6e-6c0e-4f53-9f7f-3c8e8cb8f8a2",
        "parent_ids": ["0c9c5f3a-92ab-4f5f-8f5b-5b8d7d3c9e11", "77a1e1f0-0c65-4f6f-9f7c-8e9d1a2b3c4d"],
        "tags": ["seq:step:2", "streaming"],
        "data": {"chunk": chunk, "input": None, "output": None},
        "metadata": metadata,
    }
