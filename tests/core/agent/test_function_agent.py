"""A function as an agent: async or not, it yields events or text, or returns text."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest
from ag_ui.core import CustomEvent, Event, RunAgentInput, RunFinishedSuccessOutcome

from agui_client import FunctionAgent, UsageError
from support.verbs import Verb, every_result_verb


async def yields(input: RunAgentInput) -> AsyncGenerator[str | Event]:
    yield "One "
    yield CustomEvent(name="between", value=1)
    yield "two"


async def returns(input: RunAgentInput) -> str:
    return "One two"


def yields_in_a_thread(input: RunAgentInput) -> Generator[str]:
    yield "One " if threading.current_thread() is not threading.main_thread() else "Blocked"
    yield "two"


def returns_in_a_thread(input: RunAgentInput) -> str:
    return "One two" if threading.current_thread() is not threading.main_thread() else "Blocked"


def returns_in_the_loop(input: Any) -> Any:
    return "One two"


@every_result_verb
@pytest.mark.parametrize("function", [yields, returns, yields_in_a_thread, returns_in_a_thread, returns_in_the_loop])
def test_text_that_a_function_yields_or_returns_is_the_answer(verb: Verb, function: Callable[..., Any]) -> None:
    result = verb(FunctionAgent(function), "Hi").result
    assert result is not None
    assert (result.text, result.outcome, result.warnings) == ("One two", RunFinishedSuccessOutcome(), [])


@pytest.mark.anyio
async def test_a_function_that_answers_nothing_is_refused() -> None:
    async def forgets(input: RunAgentInput) -> Any:
        """Return nothing."""

    with pytest.raises(UsageError, match="yields events or text, or returns text, not None"):
        await FunctionAgent(forgets).run_agent("Hi")


@pytest.mark.anyio
async def test_a_generator_of_text_is_closed_when_its_run_is_left() -> None:
    ends: list[str] = []

    async def talks() -> AsyncGenerator[str]:
        try:
            while True:
                yield "on and "
        finally:
            ends.append("closed")

    async with FunctionAgent(lambda _: talks()).stream("Hi") as run:
        async for _ in run.text_stream:
            break
    assert ends == ["closed"]
