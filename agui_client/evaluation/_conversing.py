"""Holding the conversation of a scenario, and having it judged.

`ScenarioAgent` is the agent of a batch: each row is a conversation with a clone of the agent under test, and the result
of the row is its `Trial`.

To change

- how a conversation of an evaluation is held, and why it ends too early: `_Talk` here; what is known of it: `Trial` in
  `evaluation/_trials.py`
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self, cast
from uuid import uuid4

import anyio
from ag_ui.core import RunFinishedEvent, RunFinishedSuccessOutcome, RunStartedEvent, TextMessageChunkEvent, UserMessage
from pydantic import TypeAdapter

from agui_client._checking.check import validate
from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.agent.http_agent import HttpAgent
from agui_client._core.ground.concurrency import call_aside
from agui_client._core.ground.secrets import address_of
from agui_client._core.protocol.message_text import content_text, tool_calls_in
from agui_client.batch._pace import is_refusal
from agui_client.errors import AGUIError, ProtocolError, RunFailedError, TransportError, UsageError
from agui_client.evaluation._playing import Helpers
from agui_client.evaluation._scripts import answerer_of, approver_of, scripted_tools
from agui_client.evaluation._trials import Trial, Turn
from agui_client.recording._reading import Recording
from agui_client.recording._recorder import Recorder

if TYPE_CHECKING:
    from ag_ui.core import Interrupt, RunAgentInput, TokenUsage

    from agui_client._checking.stream_faults import StreamFault
    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.run.result import RunResult
    from agui_client.evaluation._scenarios import Scenario

TRIAL: TypeAdapter[Trial] = TypeAdapter(Trial)
_SECONDS = 300.0


class _EndedError(Exception):
    """A conversation ends too early, for a reason that is not an exception of the agent."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A conversation to hold."""

    scenario: Scenario
    """The scenario; its user and judge are agents."""
    repetition: int
    """The number of the repetition, from 1."""
    path: Path
    """The file for the reproduction; if there is one, the reproduction gets a number."""

    def draft(self, thread_id: str) -> Path:
        """Return the file in which a conversation is recorded, until it is known what came of it."""
        return self.path.with_name(f".{thread_id}.unfinished")


class ScenarioAgent(AbstractAgent[Any]):
    """Holds conversations with an agent; the prompt of a run names the scenario.

    Args:
        tested: The agent under test.
        planned: The conversations, by the prompts.
    """

    def __init__(self, tested: AbstractAgent[Any], planned: Mapping[str, Planned]) -> None:
        super().__init__(agent_id=tested.name)
        self._tested, self._planned = tested, planned
        self._blocks = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Keep connections for all conversations."""
        others = (agent for each in self._planned.values() for agent in (each.scenario.user, each.scenario.judge))
        for agent in {id(each): each for each in (self._tested, *others) if isinstance(each, HttpAgent)}.values():
            await self._blocks.enter_async_context(agent)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._blocks.aclose()

    async def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Hold a conversation."""
        planned = self._planned[content_text(input.messages[-1].content)]
        trial, usage = await hold(self._tested, planned)
        about: Any = {"thread_id": input.thread_id, "run_id": input.run_id}
        try:
            yield RunStartedEvent(**about)
            yield TextMessageChunkEvent(message_id=str(uuid4()), delta=trial.transcript or "nothing was said")
            result = TRIAL.dump_python(trial, mode="json", by_alias=True)
            yield RunFinishedEvent(**about, result=result, usage=usage, outcome=RunFinishedSuccessOutcome())
        except BaseException:
            # Stopped before the journal has the conversation, which the next start holds anew.
            planned.draft(trial.thread_id).unlink(missing_ok=True)
            raise


async def hold(tested: AbstractAgent[Any], planned: Planned) -> tuple[Trial, list[TokenUsage]]:
    """Hold a conversation, and ask the judge about it.

    Args:
        tested: The agent under test; a clone of it is asked.
        planned: The conversation.

    Returns:
        The trial, and the tokens that all sides used.

    Raises:
        TransportError: The agent could not be asked.
        UsageError: Something else than the agent failed: a setting, the user, the judge.
    """
    scenario, thread_id = planned.scenario, str(uuid4())
    path = planned.draft(thread_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(path)
    trial = Trial(scenario.name, planned.repetition, thread_id=thread_id, agent=identity_of(tested))
    helpers = Helpers(scenario, trial)
    try:
        agent = _prepared(tested, scenario, thread_id, helpers).use(recorder)
        await _Talk(scenario, trial, helpers).hold(agent)
        if path.exists():
            recording = Recording.read(path)
            _add_faults(trial, recording, await anyio.to_thread.run_sync(validate, recording))
            inputs = (each.input for each in recording.exchanges if each.request.base is None)
            trial.tools = {tool.name: tool.parameters for input in inputs for tool in input.tools or ()}
        if trial.error is None:
            await helpers.judge(recorder)
    except BaseException:
        recorder.close()
        path.unlink(missing_ok=True)
        raise
    recorder.close()
    return trial, [*trial.usage, *helpers.spent]


def _add_faults(trial: Trial, recording: Recording, faults: Iterable[StreamFault]) -> None:
    """Note faults in the turns in whose requests they are; each turn is a call, inside which there may be others."""
    requests = [each.request for each in recording.exchanges]
    outer = {each.call: each.parent for each in requests}
    calls = list(dict.fromkeys(each.call for each in requests if each.parent is None))
    last = len(trial.turns) - 1
    for fault in faults:
        call = next((each.call for each in requests if each.request == fault.request), None)
        while call is not None and (parent := outer.get(call)) is not None:
            call = parent
        at = min(calls.index(call), last) if call in calls else last
        trial.turns[at] = replace(trial.turns[at], faults=[*trial.turns[at].faults, fault])


def identity_of(agent: AbstractAgent[Any]) -> str:
    """Return what a journal tells agents apart by: the address, or else the name or the class."""
    return address_of(agent.url) if isinstance(agent, HttpAgent) else agent.name or type(agent).__name__


def _prepared(tested: AbstractAgent[Any], scenario: Scenario, thread_id: str, helpers: Helpers) -> AbstractAgent[Any]:
    """Return a clone of an agent with the tools, handlers and state of a scenario."""

    def tool_of(interrupt: Interrupt) -> str | None:
        """Return the name of the tool that a question of the agent is about."""
        calls = tool_calls_in(agent.messages)
        return next((call.function.name for _, call in calls if call.id == interrupt.tool_call_id), None)

    agent = tested.clone(thread_id=thread_id)
    agent.tools = scripted_tools(agent.tools, scenario.tools)
    agent.set_handlers(approve=approver_of(scenario.approve), answer=answerer_of(scenario.answer, tool_of))
    if scenario.goal:
        # The person whom an agent plays is asked where neither the scenario nor the program says who decides.
        approve, answer = agent.handlers
        agent.set_handlers(approve=approve or helpers.approve, answer=answer or helpers.answer)
    if scenario.state is not None:
        agent.set_state(scenario.state)
    return agent


@dataclass
class _Talk:
    """A conversation that is being held."""

    scenario: Scenario
    trial: Trial
    helpers: Helpers
    """The user and the judge."""
    begun: int = 0
    """The number of turns that began."""

    async def hold(self, agent: AbstractAgent[Any]) -> None:
        """Let the user talk with the agent until the user is done, or a limit is reached."""
        seconds, start = self.scenario.limits.get("seconds", _SECONDS), perf_counter()
        try:
            with anyio.move_on_after(seconds) as scope:
                async with aclosing(self._prompts()) as prompts:
                    async for prompt in prompts:
                        self._check_next()
                        await self._turn(agent, prompt)
            # An agent may have held up the event loop, so that nothing was cancelled.
            if scope.cancelled_caught or perf_counter() - start > seconds:
                where = f"; turn {self.begun} was not over" if scope.cancelled_caught else ""
                raise _EndedError(f"the conversation took longer than {seconds:g} seconds{where}")
        except _EndedError as reason:
            self.trial.error = str(reason)
        except AGUIError as failure:
            cause = failure.raised if isinstance(failure, RunFailedError) and failure.raised is not None else failure
            if isinstance(cause, UsageError) or (isinstance(cause, TransportError) and self._may_be_away(cause)):
                raise cause from (None if cause is failure else failure)
            rule = f" ({failure.rule})" if isinstance(failure, ProtocolError) and failure.rule else ""
            kind = type(cause if isinstance(cause, TransportError) else failure).__name__
            self.trial.error = f"in turn {self.begun}, {kind}{rule}: {failure}"
        finally:
            self.trial.seconds = round(perf_counter() - start, 6)

    def _may_be_away(self, failure: TransportError) -> bool:
        """Return whether an agent could not be asked, rather than crashed: it never responded, or asks to wait."""
        return self.begun <= 1 or is_refusal(failure)

    def _check_next(self) -> None:
        """Check that the conversation may continue.

        Raises:
            _EndedError: A limit is reached, or the agent waits for an answer.
        """
        trial = self.trial
        if len(trial.turns) >= self.scenario.most_turns:
            raise _EndedError(f"the user is not done after {len(trial.turns)} turns")
        if trial.turns and (waiting := trial.turns[-1].interrupts):
            question = waiting[0].message or waiting[0].reason
            raise _EndedError(f"the agent asks: {question}; give the scenario answer:")

    async def _turn(self, agent: AbstractAgent[Any], prompt: str) -> None:
        start, before = perf_counter(), {message.id for message in agent.messages}
        self.begun += 1

        def add(result: RunResult) -> None:
            """Add the turn, as far as it came."""
            messages = [message for message in result.messages if message.id not in before]
            self.trial.add(prompt, result, messages, perf_counter() - start)

        try:
            result = await agent.run_agent(prompt)
        except AGUIError as failure:
            if failure.partial is None:
                self.trial.turns.append(Turn(prompt, seconds=round(perf_counter() - start, 6)))
            else:
                add(cast("RunResult", failure.partial))
            raise
        except anyio.get_cancelled_exc_class():
            came = [message for message in agent.messages if message.id not in before]
            said = [content_text(each.content) for each in came if each.role == "assistant"]
            text = next((each for each in reversed(said) if each), "")
            took = round(perf_counter() - start, 6)
            asked = came or [UserMessage(id=str(uuid4()), content=prompt)]
            self.trial.turns.append(Turn(prompt, text, seconds=took, messages=asked))
            raise
        add(result)
        tokens = self.trial.tokens
        if tokens > (most := self.scenario.limits.get("tokens", tokens)):
            raise _EndedError(f"the agent used {tokens} tokens, and may use {most}")
        if result.pending_tool_calls:
            name = result.pending_tool_calls[0].function.name
            raise _EndedError(f"the agent waits for {name}; give the scenario the tool, or approve:")

    async def _prompts(self) -> AsyncGenerator[str]:
        """Yield what the user says: the script, and then what the agent says that plays the user."""
        for line in self.scenario.says:
            said = line if isinstance(line, str) else await call_aside(partial(line, self.trial), "agui user")
            if said is None:
                return
            yield str(said)
        if self.scenario.goal:
            async with aclosing(self.helpers.prompts()) as played:
                async for prompt in played:
                    yield prompt
