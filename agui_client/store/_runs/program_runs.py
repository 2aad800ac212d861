"""Runs that programs begin, of an agent, of a function that opens threads, or by a name.

To change

- what programs give to `runs.start` and `runs.add`: `NamedOpener` and `ProgramRun` here
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import uuid4

from ag_ui.core import RunAgentInput

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.run.options import IN_INPUT
from agui_client._serving.answering import TRUSTING, ResumedRun, continued_run, trusted_run
from agui_client.errors import UsageError
from agui_client.store._threads.opened import enter_for_call

if TYPE_CHECKING:
    from agui_client._core.agent.run_records import OnCrash, StoredRequest
    from agui_client._core.protocol.prompts import Prompt
    from agui_client._core.run.options import RunOptions
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client.store._runs.server_run import Enter

Agent: TypeAlias = AbstractAgent[Any]
Chosen: TypeAlias = Agent | AbstractAsyncContextManager[Agent]
"""An agent, or a block with one."""
Opener: TypeAlias = Callable[[str], Chosen]
AgentSource: TypeAlias = Agent | Opener
"""An agent, or a function of a thread id that returns one or a block with one, such as `Threads.open` makes."""


def opener_of(agent: AgentSource, thread_id: str | None) -> Opener:
    """Return a function that gives the agent of a thread, each time the same one if an agent was given.

    Raises:
        UsageError: It is neither an agent nor a function.
    """
    if isinstance(agent, AbstractAgent):
        given: Agent = cast("Any", agent)
        own = given if thread_id in (None, given.thread_id) else given.clone(thread_id=thread_id)
        return lambda _: own
    if not callable(cast("object", agent)) or inspect.isclass(agent):
        raise UsageError(f"runs take an agent, or a function of a thread id that returns one, not {agent!r}")
    return agent


class NamedOpener:
    """An agent that programs start runs of by its name.

    Args:
        agent: The agent, which has no conversation of its own here; or a function of a thread id.
        on_crash: Says what becomes of a run whose process ends.
    """

    def __init__(self, agent: AgentSource, on_crash: OnCrash) -> None:
        self.on_crash: OnCrash = on_crash
        """Says what becomes of a run whose process ends."""
        # No thread of a run is that of this one, so that each run gets a clone with the messages of its input.
        is_plain = isinstance(agent, AbstractAgent)
        self._plain = cast("Agent", agent).clone(thread_id=str(uuid4())) if is_plain else None
        self._open = opener_of(agent, None)

    def enter_as(self, stored_request: StoredRequest, /) -> Enter:
        """Return what enters a run of the agent: of the prompt, of answers, or one that was cut."""
        given = RunAgentInput.model_validate(stored_request.input)

        async def enter(input: RunAgentInput, stack: AsyncExitStack, cut: ResumedRun | None = None, /) -> AgentRun:
            """Enter a run."""
            if (agent := self._plain) is not None:
                place = None if cut is None else await cut.find(agent)
                run = trusted_run(agent, input) if place is None else continued_run(agent, input, place, TRUSTING)
                return await stack.enter_async_context(run)
            options: RunOptions = {"run_id": input.run_id, "context": input.context or []}
            options["forwarded_props"] = input.forwarded_props
            prompt = next(iter(given.messages), None)
            return await ProgramRun(self._open, input.thread_id, prompt, options).enter(input, stack, cut)

        return enter


def input_of(thread_id: str, options: RunOptions) -> RunAgentInput:
    """Return an input without messages for the run of a program."""
    return RunAgentInput(
        thread_id=thread_id,
        run_id=options.get("run_id") or "",
        state=None,
        messages=[],
        tools=[],
        context=list(options.get("context") or ()),
        forwarded_props=options.get("forwarded_props"),
    )


class ProgramRun:
    """The run that a program begins, and those that answer its interrupts."""

    def __init__(self, open_agent: Opener, thread_id: str, prompt: Prompt, options: RunOptions) -> None:
        self.input: RunAgentInput = input_of(thread_id, options)
        """The input that asks for the run, as far as the runs that answer its interrupts have the same."""
        self._open, self._thread_id, self._prompt, self._options = open_agent, thread_id, prompt, options

    async def enter(self, input: RunAgentInput, stack: AsyncExitStack, cut: ResumedRun | None = None, /) -> AgentRun:
        """Enter the run of the prompt, or of an input with answers, or continue with a run that was cut.

        Args:
            input: The input, which stands for the prompt if it has no answers.
            stack: The stack of blocks in which it is entered.
            cut: What is known of the run if its process ended; None if it begins.
        """
        chosen = self._open(self._thread_id)
        agent: Agent = chosen if isinstance(chosen, AbstractAgent) else await enter_for_call(chosen, stack)
        if agent.thread_id != self._thread_id:
            what = f"the function opened thread {agent.thread_id!r}, not {self._thread_id!r}"
            raise UsageError(f"{what}, which it was called with")
        place = None if cut is None else await cut.find(agent)
        if place is not None:
            run = continued_run(agent, input, place, TRUSTING)
        elif input.resume:
            # The agent has the conversation, and so has the thread that the function opens. The input has the others:
            # an answer is about the same run, with the same tools, headers and time-outs.
            input = input.model_copy(update={"messages": [], "state": None})
            given = {name: value for name, value in self._options.items() if value is not None}
            beside: Any = {name: given[name] for name in given.keys() - IN_INPUT}
            run = trusted_run(agent, input, beside)
        else:
            run = agent.stream(self._prompt, **self._options)
        return await stack.enter_async_context(run)
