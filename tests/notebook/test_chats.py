"""Agents in the chat elements of marimo and Panel; where these are not installed, the adapters alone."""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import AsyncIterator
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from ag_ui.core import RunErrorEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agui_client import RunFailedError, tool
from agui_client.notebook import marimo_chat, panel_chat
from agui_client.notebook._inert_markdown import InertMarkdown
from agui_client.testing import ScriptedAgent, interrupt, reasoning, text, tool_call, turn


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def adding() -> ScriptedAgent:
    calls = turn(reasoning("Numbers."), tool_call("add", {"a": 1, "b": 2}))
    return ScriptedAgent(calls, turn(text("It is **3**."), outcome=interrupt("Book <it>?")), tools=[add])


async def parts_of(model: Any, message: Any) -> list[dict[str, Any]]:
    parts: AsyncIterator[dict[str, Any]] = model([message], None)
    return [part async for part in parts]


def texts(parts: list[dict[str, Any]]) -> list[str]:
    """What each text and each thought says."""
    said: dict[str, str] = {}
    for part in parts:
        if part["type"].endswith("-delta") and "id" in part:
            said[part["id"]] = said.get(part["id"], "") + part["delta"]
    return list(said.values())


@pytest.mark.anyio
async def test_a_chat_of_marimo_gets_the_answer_in_parts() -> None:
    parts = await parts_of(marimo_chat(adding()), SimpleNamespace(content="What is 1 and 2?"))
    assert texts(parts) == ["Numbers.", "It is **3**.", "*waits for an answer: Book &lt;it&gt;? (interrupt-1)*"]
    kinds = [part["type"] for part in parts]
    assert kinds[:3] == ["reasoning-start", "reasoning-delta", "reasoning-end"]
    called = {"toolCallId": "call-1", "toolName": "add"}
    assert {"type": "tool-input-start", **called} in parts
    assert {"type": "tool-input-available", **called, "input": {"a": 1, "b": 2}} in parts
    assert {"type": "tool-output-available", "toolCallId": "call-1", "output": 3} in parts


@pytest.mark.anyio
async def test_a_message_of_marimo_may_come_in_parts() -> None:
    agent = ScriptedAgent(turn(text("Hello.")))
    file, said = SimpleNamespace(type="file"), SimpleNamespace(type="text", text="Hi")
    await parts_of(marimo_chat(agent), SimpleNamespace(content=None, parts=[file, said]))
    assert agent.messages[0].content == "Hi"


@pytest.mark.anyio
async def test_a_chat_of_panel_gets_the_answer_so_far_as_html() -> None:
    answers = [answer._repr_html_() async for answer in panel_chat(adding())("What is 1 and 2?", "User", None)]
    assert all("What is 1 and 2?" not in each for each in answers)
    # One may be drawn before anything has come, where a machine is busy.
    first = next(each for each in answers if "thought: Numbers." in each)
    assert "<strong>3</strong>" not in first
    assert "<strong>3</strong>" in answers[-1]
    assert "→ succeeded" in answers[-1]
    assert "waits for an answer: Book &lt;it&gt;?" in answers[-1]


@pytest.mark.anyio
@pytest.mark.parametrize("place", ["marimo", "panel"])
async def test_a_run_that_fails_is_an_error_of_the_chat(place: str) -> None:
    agent = ScriptedAgent(turn(text("So far."), RunErrorEvent(message="overloaded")))
    prompt: Any = [SimpleNamespace(content="Hi")]
    answers: AsyncIterator[Any] = (
        marimo_chat(agent)(prompt, None) if place == "marimo" else panel_chat(agent)("Hi", "User", None)
    )
    with pytest.raises(RunFailedError, match="overloaded"):
        [each async for each in answers]


@pytest.mark.skipif(find_spec("marimo") is None, reason="marimo is not installed")
def test_marimo_shows_the_answer_of_an_agent() -> None:
    marimo, chats = import_module("marimo"), import_module("marimo._plugins.ui._impl.chat.chat")
    sent: list[dict[str, Any]] = []

    def take(message: dict[str, Any], buffers: object) -> None:
        sent.append(message)

    element = marimo.ui.chat(marimo_chat(adding()))
    element._send_message = take
    prompt = marimo.ai.ChatMessage(role="user", content="What is 1 and 2?")
    asyncio.run(element._send_prompt(chats.SendMessageRequest(messages=[prompt], config=None)))
    assert [each["is_final"] for each in sent[-2:]] == [False, True]
    assert "It is **3**." in texts([each["content"] for each in sent[:-1]])


@pytest.mark.skipif(find_spec("panel") is None, reason="Panel is not installed")
def test_panel_shows_the_answer_of_an_agent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        panel = import_module("panel")

    async def ask() -> Any:
        element = panel.chat.ChatInterface(callback=panel_chat(adding()))
        element.send("What is 1 and 2?", respond=False)
        await element._prepare_response()
        return element.objects[-1]

    shown = asyncio.run(ask())
    assert type(shown._object_panel).__name__ == "HTML"
    assert "<strong>3</strong>" in shown.object._repr_html_()


PAGE = (
    "![a](http://e.example) <img src=x>\n\n~~~\n```\n~~~\n![b](u)\n```rust\nvec![1] as Vec<u8>\n```\n![c](u)\r```\r\n"
    "<div>\n   ````  \n- ```\n  ```\n![d](u)\n$$\n```\n$$\n![e](u) <svg"
)


@pytest.mark.requirement("SEC-8")
@given(cuts=st.lists(st.integers(0, len(PAGE)), max_size=12), around=st.text("`~$!<[( \n\r-i", max_size=12))
@settings(max_examples=60, deadline=None)
def test_marimo_finds_no_image_and_no_tag_wherever_a_text_is_cut(cuts: list[int], around: str) -> None:
    written = around + PAGE
    places = [0, *sorted(cuts), len(written)]
    inert = InertMarkdown()
    shown = "".join(inert.feed(written[start:end]) for start, end in pairwise(places)) + inert.end()
    assert shown.replace("\u200b", "") == written.replace("\u200b", "").replace("\r\n", "\n").replace("\r", "\n")
    # With HTML and images, unlike the reader of this package.
    html = MarkdownIt("commonmark").enable("table").render(shown)
    assert re.findall(r"<img|<svg|<div", html) == []


def test_code_for_marimo_stays_as_it_is() -> None:
    inert = InertMarkdown()
    code = "```rust\nvec![1] as Vec<u8>\n```\n"
    assert "".join(map(inert.feed, code)) + inert.end() == code
