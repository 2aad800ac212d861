"""What programs write by mistake is refused in a sentence that says what to write."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from ag_ui.core import DocumentPart, ImagePart

import agui_client
from agui_client import HttpAgent, ToolError, UsageError, attach, tool
from agui_client.asgi import agent_app
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn
from support.stores import FOR_ALL
from support.tool_rounds import results_in

PIXEL = b"\x89PNG\r\n\x1a\n"


def agent() -> Any:
    return ScriptedAgent(turn(text("Hello")))


async def enters_async_run_of_sync() -> None:
    async with agent().stream_sync("Hi"):
        pass


async def iterates_async_run_of_sync() -> None:
    with agent().stream_sync("Hi") as run:
        async for _ in run:
            pass


async def iterates_text_without_await() -> None:
    async with agent().stream("Hi") as run:
        for _ in run.text_stream:
            pass


async def iterates_run_without_await() -> None:
    async with agent().stream("Hi") as run:
        for _ in run:
            pass


async def enters_without_await() -> None:
    with agent().stream("Hi"):
        pass


async def awaits_a_stream() -> None:
    await agent().stream("Hi")


async def assigns_messages() -> None:
    agent().messages = []


async def gives_a_number_as_header() -> None:
    headers: Any = {"X-Tenant": 5}
    HttpAgent("http://localhost/", headers=headers)


async def gives_text_as_context() -> None:
    await agent().run_agent("Hi", context="It is noon.")


async def gives_text_as_a_number_of_bytes() -> None:
    most: Any = "1"
    HttpAgent("http://localhost/", max_run_bytes=most)


async def serves_a_function_of_nothing() -> None:
    choose: Any = agent
    agent_app(choose)


async def serves_with_a_store_as_at_the_command_line() -> None:
    store: Any = "memory"
    agent_app(agent(), store=store, **FOR_ALL)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("slip", "said"),
    [
        (enters_without_await, "write `async with agent.stream"),
        (iterates_text_without_await, "write `async for` with"),
        (iterates_run_without_await, "write `async for event in run`"),
        (enters_async_run_of_sync, "write `with agent.stream_sync"),
        (iterates_async_run_of_sync, "write `for event in run`"),
        (awaits_a_stream, r"write `async with agent\.stream\(\.\.\.\) as run`; .* `await agent\.run_agent"),
        (assigns_messages, r"agent\.set_messages\(\[\.\.\.\]\) replaces them"),
        (gives_a_number_as_header, "X-Tenant is of type int"),
        (gives_text_as_context, r'context= takes a list, such as \[Context\(description="time"'),
        (gives_text_as_a_number_of_bytes, "max_run_bytes= is a whole number from 1 up, not '1'"),
        (serves_a_function_of_nothing, r"is called with \(request, input\), and has to return an agent"),
        (serves_with_a_store_as_at_the_command_line, r"store= takes Store\(\) of agui_client.store, .* not 'memory'"),
    ],
)
async def test_a_slip_is_refused_with_what_to_write(slip: Callable[[], Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        await slip()


def test_an_unknown_keyword_is_refused_with_the_nearest_of_all_that_the_class_takes() -> None:
    options: Any = {"header": {}}
    said = r"^unknown keyword header=; did you mean headers=\? help\(HttpAgent\) explains all keywords$"
    with pytest.raises(TypeError, match=said):
        HttpAgent("http://localhost/", **options)


def test_the_package_lists_its_public_names_only() -> None:
    assert dir(agui_client) == sorted(agui_client.__all__)


@pytest.mark.parametrize(
    ("source", "kind", "mime_type", "value"),
    [
        (io.BytesIO(PIXEL), ImagePart, "image/png", "iVBORw0KGgo="),
        ("data:image/png;base64,iVBORw0KGgo=", ImagePart, "image/png", "iVBORw0KGgo="),
        ("data:,Hi%20you", DocumentPart, "text/plain", "SGkgeW91"),
    ],
    ids=["open file", "data URL", "text"],
)
def test_open_files_and_data_urls_are_attached(source: Any, kind: type, mime_type: str, value: str) -> None:
    part: Any = attach(source)
    assert (type(part), part.source.mime_type, part.source.value) == (kind, mime_type, value)


def test_a_broken_data_url_is_refused() -> None:
    for url in ("data:image/png;base64,%%%", "data:nothing"):
        with pytest.raises(UsageError, match="the data: URL cannot be attached"):
            attach(url)


@pytest.mark.parametrize("prose", ['Sure! Here: {"a": 1} Enjoy.', '[note] {"a": 1} and {"b": 2}'])
def test_the_first_object_in_prose_that_fits_is_the_answer(prose: str) -> None:
    assert ScriptedAgent(turn(text(prose))).run_agent_sync("Hi").parse(dict[str, int]) == {"a": 1}


def test_an_outcome_as_the_last_step_of_a_turn_is_its_outcome() -> None:
    [asked] = ScriptedAgent(turn(text("Ready."), interrupt("Proceed?"))).run_agent_sync("Hi").interrupts
    assert asked.message == "Proceed?"
    with pytest.raises(UsageError, match="as the last step or as outcome="):
        turn(interrupt("Proceed?"), text("Ready."))


def test_the_code_and_the_suggestion_of_a_tool_error_reach_the_agent() -> None:
    @tool
    def look_up(city: str) -> str:
        """Look a city up."""
        raise ToolError("No such city.", code="unknown_city", suggestion="Ask for another one.")

    script = turn(tool_call("look_up", {"city": "Oz"})), turn(text("Done."))
    result = ScriptedAgent(*script, tools=[look_up]).run_agent_sync("Hi")
    [(_, content, error)] = results_in(result.new_messages)
    assert content == error == "No such city. (code: unknown_city) Suggestion: Ask for another one."
