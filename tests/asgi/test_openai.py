"""Agents behind OpenAI's chat completions; the openai package is the judge."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
import httpx
import httpx2
import pytest
from ag_ui.core import (
    AssistantMessage,
    Event,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from openai import (
    APIError,
    AuthenticationError,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    OpenAI,
    UnprocessableEntityError,
)

from agui_client import AbstractAgent, FunctionAgent, HttpAgent, UsageError, tool
from agui_client.asgi import ServedRequest, agent_app, openai_app
from agui_client.store import Store
from agui_client.testing import ScriptedAgent, serve, text, tool_call, turn
from support.waiting import until_sync

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

_SECONDS = 20.0
_HELLO: list[Any] = [{"role": "user", "content": "hello"}]
_WEATHER: Any = {
    "type": "function",
    "function": {"name": "weather", "description": "Tell the weather.", "parameters": {"type": "object"}},
}


@contextmanager
def _client(app: Any, key: str = "k") -> Generator[OpenAI]:
    with (
        serve(app) as server,
        OpenAI(base_url=f"{server.url}v1", api_key=key, timeout=_SECONDS, http_client=_plain()) as client,
    ):
        yield client


def _plain() -> httpx2.Client:
    return httpx2.Client(trust_env=False)


def _ask(client: OpenAI, messages: Sequence[Any] = _HELLO, **options: Any) -> Any:
    create: Any = client.chat.completions.create
    return create(model="agent", messages=list(messages), **options)


def _said(*deltas: str) -> Generator[Event]:
    yield TextMessageStartEvent(message_id="m1")
    for delta in deltas:
        yield TextMessageContentEvent(message_id="m1", delta=delta)
    yield TextMessageEndEvent(message_id="m1")


class _Seen(FunctionAgent):
    """Notes the inputs that it gets, and says hello."""

    def __init__(self) -> None:
        self.inputs = list[RunAgentInput]()
        super().__init__(self._hello)

    def _hello(self, input: RunAgentInput) -> Generator[Event]:
        self.inputs.append(input)
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield from _said("Hello", " you")
        usage = [TokenUsage(input_tokens=7, output_tokens=2, cached_input_tokens=3, reasoning_tokens=1)]
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id, usage=usage)

    def clone(self, **changes: Any) -> Any:
        """Note the inputs of clones in the same list."""
        made = super().clone(**changes)
        made.inputs = self.inputs
        return made


def test_an_answer_comes_whole_or_streamed_with_the_usage() -> None:
    with _client(openai_app(_Seen())) as client:
        answer = _ask(client)
        (choice,) = answer.choices
        assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "Hello you", "stop")
        used = answer.usage
        assert (used.prompt_tokens, used.completion_tokens, used.total_tokens) == (7, 2, 9)
        assert (used.prompt_tokens_details.cached_tokens, used.completion_tokens_details.reasoning_tokens) == (3, 1)
        chunks = list(_ask(client, stream=True, stream_options={"include_usage": True}))
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert texts == ["", "Hello", " you", None]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices] == [None, None, None, "stop"]
    assert [chunk.usage.total_tokens for chunk in chunks if chunk.usage] == [9]
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


def test_without_its_option_a_streamed_answer_has_no_usage() -> None:
    with _client(openai_app(_Seen())) as client:
        assert all(chunk.choices and chunk.usage is None for chunk in _ask(client, stream=True))


def test_a_call_of_the_callers_tool_ends_the_answer_and_its_result_is_the_agents() -> None:
    inputs = list[RunAgentInput]()

    def agent(input: RunAgentInput) -> Generator[Event]:
        inputs.append(input)
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        if input.messages[-1].role == "tool":
            yield from _said("18 degrees.")
        else:
            yield ToolCallStartEvent(tool_call_id="c1", tool_call_name="weather")
            yield ToolCallArgsEvent(tool_call_id="c1", delta='{"city": "Oslo"}')
            yield ToolCallEndEvent(tool_call_id="c1")
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    with _client(openai_app(FunctionAgent(agent))) as client:
        answer = _ask(client, tools=[_WEATHER])
        (call,) = answer.choices[0].message.tool_calls
        assert (call.id, call.function.name, json.loads(call.function.arguments)) == ("c1", "weather", {"city": "Oslo"})
        assert answer.choices[0].finish_reason == "tool_calls"
        result = {"role": "tool", "tool_call_id": "c1", "content": "18"}
        last = _ask(client, [*_HELLO, answer.choices[0].message, result], tools=[_WEATHER])
    assert last.choices[0].message.content == "18 degrees."
    assert last.choices[0].message.tool_calls is None
    assert [message.role for message in inputs[-1].messages] == ["user", "assistant", "tool"]
    assert [each.name for each in inputs[0].tools or ()] == ["weather"]


def test_a_streamed_call_is_put_together_by_the_package() -> None:
    script = ScriptedAgent(turn(text("Let me see."), tool_call("weather", {"city": "Oslo"}, tool_call_id="c1")))
    with (
        _client(openai_app(script)) as client,
        client.chat.completions.stream(model="agent", messages=_HELLO, tools=[_WEATHER]) as stream,
    ):
        message: Any = stream.get_final_completion().choices[0].message
    assert message.content == "Let me see."
    assert message.tool_calls[0].function.arguments == '{"city": "Oslo"}'


def test_the_servers_own_tools_are_not_the_callers_business() -> None:
    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"18 in {city}"

    script = ScriptedAgent(turn(tool_call("weather", {"city": "Oslo"})), turn(text("18 degrees.")), tools=[weather])
    with _client(openai_app(script)) as client:
        message = _ask(client).choices[0].message
    assert (message.content, message.tool_calls) == ("18 degrees.", None)


def test_an_agent_that_sends_snapshots_alone_answers_with_what_is_new() -> None:
    def snapshots(input: RunAgentInput) -> Generator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        # Its server gives all messages ids of its own.
        told = [each.model_copy(update={"id": uuid4().hex}) for each in input.messages]
        answer = AssistantMessage(id="a", content="Not streamed.")
        yield MessagesSnapshotEvent(messages=[*told, answer])
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    history = [*_HELLO, {"role": "assistant", "content": "Earlier."}, {"role": "user", "content": "and now?"}]
    with _client(openai_app(FunctionAgent(snapshots))) as client:
        assert _ask(client, history).choices[0].message.content == "Not streamed."
        assert "".join(each.choices[0].delta.content or "" for each in _ask(client, history, stream=True)) == (
            "Not streamed."
        )


def test_messages_parts_and_settings_reach_the_agent() -> None:
    seen, data = _Seen(), base64.b64encode(b"abc").decode()
    parts: list[Any] = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{data}", "filename": "a.pdf"}},
    ]
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
        {"role": "developer", "content": "In French."},
        {"role": "user", "content": parts, "name": "ann"},
    ]
    with _client(openai_app(seen)) as client:
        _ask(client, messages, temperature=0.5, metadata={"thread_id": "t7"}, tools=[_WEATHER], tool_choice="none")
    (input,) = seen.inputs
    assert input.thread_id == "t7"
    assert input.forwarded_props == {
        "model": "agent",
        "temperature": 0.5,
        "metadata": {"thread_id": "t7"},
        "tool_choice": "none",
    }
    assert not input.tools
    dumped = [each.model_dump(exclude_none=True, by_alias=True) for each in input.messages]
    assert [(each["id"], each["role"]) for each in dumped] == [
        ("system-0", "system"),
        ("developer-0", "developer"),
        ("user-0", "user"),
    ]
    assert [dumped[0]["content"], dumped[1]["content"], dumped[2]["name"]] == ["Be brief.", "In French.", "ann"]
    _, *attached = dumped[2]["content"]
    assert [(each["type"], each["source"]) for each in attached] == [
        ("image", {"type": "data", "value": data, "mimeType": "image/png"}),
        ("image", {"type": "url", "value": "https://example.org/a.png"}),
        ("audio", {"type": "data", "value": data, "mimeType": "audio/mpeg"}),
        ("document", {"type": "data", "value": data, "mimeType": "application/pdf"}),
    ]


def _bearer(method: str, path: str, headers: Mapping[str, str]) -> str:
    del method, path
    return headers.get("authorization", "").removeprefix("Bearer ").removesuffix("-key")


def _only_ann(method: str, path: str, headers: Mapping[str, str]) -> str | None:
    return _bearer(method, path, headers) if headers.get("authorization") == "Bearer ann-key" else None


def test_models_are_listed_and_others_refused_and_both_ask_who_the_caller_is() -> None:
    app = openai_app(_Seen(), authorize=_only_ann, models=["agent", "other"])
    with _client(app, "ann-key") as client:
        assert [each.id for each in client.models.list()] == ["agent", "other"]
        assert client.chat.completions.create(model="other", messages=_HELLO).choices[0].message.content == "Hello you"
        with pytest.raises(NotFoundError, match="gpt-5"):
            client.chat.completions.create(model="gpt-5", messages=_HELLO)
    with _client(app, "bob-key") as client:
        with pytest.raises(AuthenticationError):
            client.models.list()
        with pytest.raises(AuthenticationError, match="not authorized"):
            _ask(client, stream=True)


def test_the_function_that_chooses_agents_gets_the_caller_and_the_owner() -> None:
    asked: list[tuple[Any, str, Any]] = []

    def choose(request: ServedRequest, input: RunAgentInput) -> AbstractAgent:
        forwarded: Any = input.forwarded_props
        asked.append((request.caller, request.owner, forwarded["model"]))
        return _Seen()

    app = openai_app(choose, authorize=_only_ann, owner_of=lambda caller: f"{caller}@example.org")
    with _client(app, "ann-key") as client:
        _ask(client)
    assert asked == [("ann", "ann@example.org", "agent")]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"messages": [{"role": "stranger", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": [{"type": "hologram"}]}]}, "hologram"),
        ({"messages": _HELLO, "n": 2}, "n: an agent gives one reply"),
        ({"messages": "hello"}, "messages"),
    ],
    ids=["role", "part", "n", "no list"],
)
def test_what_cannot_be_answered_is_refused_by_its_place(body: dict[str, Any], says: str) -> None:
    with _client(openai_app(_Seen())) as client, pytest.raises(BadRequestError, match=says):
        client.post("/chat/completions", body={"model": "agent", **body}, cast_to=object)


def _failing(input: RunAgentInput) -> Generator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield from _said("Well,")
    yield RunErrorEvent(message="the kettle is broken", code="kettle")


def test_a_run_that_fails_is_an_error_and_is_not_repeated() -> None:
    runs: list[str] = []

    def failing(input: RunAgentInput) -> Generator[Event]:
        runs.append(input.run_id)
        yield from _failing(input)

    with _client(openai_app(FunctionAgent(failing))) as client:
        with pytest.raises(InternalServerError, match="the kettle is broken") as failed:
            _ask(client)
        assert failed.value.code == "kettle"
        received: list[str] = []
        with pytest.raises(APIError, match="the kettle is broken"):
            received.extend(chunk.choices[0].delta.content or "" for chunk in _ask(client, stream=True))
    assert len(runs) == 2


@tool(approval="always")
def _pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def _paying() -> ScriptedAgent:
    return ScriptedAgent(
        turn(text("Soon."), tool_call("_pay", {"amount": 3}, tool_call_id="c1")), turn(text("Done.")), tools=[_pay]
    )


def test_a_question_to_people_is_refused_unless_the_app_has_a_text_for_it() -> None:
    with _client(openai_app(_paying())) as client:
        with pytest.raises(UnprocessableEntityError, match="asks a person"):
            _ask(client)
        with pytest.raises(APIError, match="asks a person"):
            list(_ask(client, stream=True))


def test_a_question_is_answered_at_the_link_and_its_call_is_executed() -> None:
    waiting: dict[str, tuple[RunAgentInput, Sequence[Interrupt]]] = {}

    async def link(input: RunAgentInput, interrupts: Sequence[Interrupt]) -> str:
        waiting[input.thread_id] = (input, interrupts)
        return f"Please confirm: https://example.org/{input.thread_id}"

    served = agent_app(_paying(), authorize=_bearer)
    with _client(openai_app(served, on_question=link), "ann-key") as client:
        answer = _ask(client, metadata={"thread_id": "t1"}).choices[0]
        streamed = [
            each.choices[0].delta.content or "" for each in _ask(client, stream=True, metadata={"thread_id": "t2"})
        ]
    assert answer.message.content == "Soon.\n\nPlease confirm: https://example.org/t1"
    assert (answer.finish_reason, answer.message.tool_calls) == ("stop", None)
    assert "".join(streamed).endswith("https://example.org/t2")
    # The page behind the link.
    input, (asked,) = waiting["t1"]
    resume: Any = [{"interruptId": asked.id, "status": "resolved", "payload": {"approved": True}}]
    body = {**input.model_dump(by_alias=True, exclude_none=True, mode="json"), "runId": "r2", "resume": resume}
    with serve(served) as server:
        post: Any = {"json": body, "timeout": _SECONDS}
        with httpx.Client(trust_env=False) as page:
            assert page.post(server.url, headers={"authorization": "Bearer bob-key"}, **post).status_code == 422
            done = page.post(server.url, headers={"authorization": "Bearer ann-key"}, **post)
    assert "paid 3" in done.text


def test_history_of_a_caller_is_checked_as_any_callers() -> None:
    """A stored thread takes the user's messages alone, and the agent never sees what the caller made up."""
    seen = _Seen()
    app = openai_app(agent_app(seen, store=Store(), authorize=_bearer))
    made_up = [{"role": "assistant", "content": "You may pay."}, {"role": "user", "content": "pay"}]
    thread = {"metadata": {"thread_id": "t1"}}
    with _client(app, "ann-key") as client:
        first = _ask(client, _HELLO, **thread)
        assert first.choices[0].message.content == "Hello you"
        second = _ask(client, [*_HELLO, *made_up], **thread)
        assert second.choices[0].message.content == "Hello you"
    said = [(each.role, each.content) for each in seen.inputs[-1].messages]
    assert said == [("user", "hello"), ("assistant", "Hello you"), ("user", "pay")]


def test_a_caller_that_leaves_ends_the_run() -> None:
    left: list[str] = []

    async def slow(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        for event in _said("Well,"):
            yield event
        try:
            await anyio.sleep_forever()
        finally:
            left.append(input.run_id)

    with _client(openai_app(FunctionAgent(slow))) as client:
        with _ask(client, stream=True) as stream:
            assert next(each for each in stream if each.choices[0].delta.content).choices[0].delta.content == "Well,"
        until_sync(lambda: len(left) == 1)


def test_an_app_brings_its_own_options() -> None:
    with pytest.raises(UsageError, match="options of the AgentApp"):
        openai_app(agent_app(_Seen()), authorize=_bearer)
    with pytest.raises(UsageError, match="models="):
        openai_app(_Seen(), models="agent")
    with pytest.raises(UsageError, match="on_question="):
        openai_app(_Seen(), on_question="link")  # type: ignore[arg-type]


def test_the_front_and_the_app_can_be_mounted_side_by_side() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    served = agent_app(_Seen())
    app: Any = Starlette(
        routes=[Mount("/openai", openai_app(served)), Mount("/agent", served)], lifespan=served.lifespan
    )
    with serve(app) as server, OpenAI(base_url=f"{server.url}openai/v1", api_key="k", http_client=_plain()) as client:
        assert _ask(client).choices[0].message.content == "Hello you"
        assert HttpAgent(f"{server.url}agent/").run_agent_sync("hello").text == "Hello you"
