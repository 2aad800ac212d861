"""Facts of a kind of agent: the keywords that it takes, where it works, and whether its runs go on alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, cast

import pytest
from ag_ui.core import Event, RunAgentInput

from agui_client import AbstractAgent, HttpAgent, RunObserver, UnrecognizedEvent, UsageError
from agui_client._core.run.options import BY_CALL, IN_INPUT
from agui_client.batch import run_many
from agui_client.teams import SequentialAgent
from agui_client.testing import ScriptedAgent, serve, text, turn
from agui_client.types import RunOptions, RunScope

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


class OwnRemoteAgent(ScriptedAgent):
    """Stands for an agent that asks a server in a way of its own."""

    is_local = False
    goes_on_alone = True
    takes = frozenset({"headers"})

    def __init__(self) -> None:
        super().__init__(turn(text("Hello.")), turn(text("Bye.")))
        self.sent: list[Any] = []

    async def run(self, input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        self.sent.append(dict(self.call_options))
        async for event in super().run(input):
            yield event


async def test_an_agent_finds_the_keywords_that_it_takes_in_the_options_of_its_call() -> None:
    agent = OwnRemoteAgent()
    await agent.run_agent("hello", headers={"x-tenant": "a"})
    assert (agent.sent, agent.call_options) == ([{"headers": {"x-tenant": "a"}}], {})


async def test_an_agent_run_inside_another_one_does_not_see_the_options_of_that() -> None:
    class Outer(OwnRemoteAgent):
        async def run(self, input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
            async for event in inner.run(input):
                yield event

    inner = OwnRemoteAgent()
    await Outer().run_agent("hello", headers={"authorization": "of the outer server"})
    assert inner.sent == [{}]


async def test_a_run_of_an_agent_that_goes_on_alone_can_be_detached() -> None:
    async with OwnRemoteAgent().stream("hello") as run:
        await anext(run)
        run.detach()
        run.cancel()
        assert (await run.result()).detached


async def test_a_run_that_ends_when_it_is_left_cannot_be_detached() -> None:
    class Fleeting(OwnRemoteAgent):
        goes_on_alone = False

    async with Fleeting().stream("hello") as run:
        with pytest.raises(UsageError, match=r"Fleeting\.goes_on_alone is False: its runs end when they are left"):
            run.detach()


async def test_observers_get_the_facts_of_the_agent() -> None:
    class Observer(RunObserver):
        def on_start(self, run: RunScope) -> None:
            seen.append((run.agent.is_local, run.agent.goes_on_alone, run.agent.takes))

    seen: list[tuple[bool, bool, frozenset[str]]] = []
    await OwnRemoteAgent().add_observer(Observer()).run_agent("hello")
    with serve(ScriptedAgent(turn(text("Hello.")))) as server:
        await HttpAgent(server.url).add_observer(Observer()).run_agent("hello")
    assert seen == [(False, True, frozenset({"headers"})), (False, True, frozenset({"headers", "timeout"}))]


def test_each_keyword_of_the_verbs_is_the_inputs_the_calls_or_taken_by_an_agent() -> None:
    assert IN_INPUT | BY_CALL | HttpAgent.takes == set(RunOptions.__annotations__)


def _call(agent: AbstractAgent) -> object:
    return agent.run_agent_sync("hello", **_NEW)


def _call_with_input(agent: AbstractAgent) -> object:
    given = RunAgentInput(thread_id="t", run_id="r", messages=[], tools=[], context=[], state={}, forwarded_props={})
    return agent.run_agent_sync(given, **_NEW)


def _call_in_team(agent: AbstractAgent) -> object:
    return SequentialAgent(agent).run_agent_sync("hello", **_NEW)


def _call_in_batch(agent: AbstractAgent) -> Iterable[object]:
    return list(run_many(agent, ["hello"], **_NEW))


_NEW = cast("Any", {"urgency": 3})


@pytest.mark.parametrize("call", [_call, _call_with_input, _call_in_team, _call_in_batch])
def test_a_new_keyword_that_the_agent_does_not_take_is_refused_by_name(
    call: Callable[[AbstractAgent], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Urgent(OwnRemoteAgent):
        takes = frozenset({"urgency"})

    monkeypatch.setitem(RunOptions.__annotations__, "urgency", int)
    agent = OwnRemoteAgent()
    with pytest.raises(UsageError, match=r"^urgency= is for an Urgent; a \w+ does not take it$"):
        call(agent)
    assert agent.sent == []
    if call is not _call_in_team:  # a team is an agent of another kind, which does not take it
        call(urgent := Urgent())
        assert urgent.sent == [_NEW]
