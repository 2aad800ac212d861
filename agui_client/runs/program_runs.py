"""Runs that programs begin, of an agent, of a function that opens threads, or by a name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import uuid4

from ag_ui.core import RunAgentInput

from agui_client.agent import AbstractAgent
from agui_client.asgi.caller_input import TRUSTING, continued_run, trusted_run
from agui_client.errors import UsageError
from agui_client.options import IN_INPUT

if TYPE_CHECKING:
    from agui_client._run.async_run import AgentRun
    from agui_client._run.continuing import Continuation
    from agui_client.messages import Prompt
    from agui_client.options import RunOptions
    from agui_client.runs.records import OnCrash, StoredRequest
    from agui_client.runs.server_run import Enter, Reenter

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

    def reenter_as(self, stored_request: StoredRequest, /) -> Reenter:
        """Return what enters a run of the agent: of the prompt, of answers, or one that was cut."""
        given = RunAgentInput.model_validate(stored_request.input)

        def reenter(input: RunAgentInput, cut: Continuation | None = None, /) -> Enter:
            """Return what enters a run."""
            if self._plain is not None:
                return partial(self._enter_plain, input, cut)
            options: RunOptions = {"run_id": input.run_id, "context": input.context or []}
            options["forwarded_props"] = input.forwarded_props
            prompt = next(iter(given.messages), None)
            begun = ProgramRun(self._open, input.thread_id, prompt, options)
            is_prompt = cut is None and not input.resume
            return begun.enter if is_prompt else begun.reenter(input, cut)

        return reenter

    async def _enter_plain(self, input: RunAgentInput, cut: Continuation | None, stack: AsyncExitStack) -> AgentRun:
        assert self._plain is not None
        run = trusted_run(self._plain, input) if cut is None else continued_run(self._plain, input, cut, TRUSTING)
        return await stack.enter_async_context(run)


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
        self.input = input_of(thread_id, options)
        """The input that asks for the run, as far as the runs that answer its interrupts have the same."""
        self._open, self._thread_id, self._prompt, self._options = open_agent, thread_id, prompt, options

    async def enter(self, stack: AsyncExitStack) -> AgentRun:
        """Enter the run of the prompt."""
        agent = await self._enter_agent(stack)
        return await stack.enter_async_context(agent.stream(self._prompt, **self._options))

    def reenter(self, input: RunAgentInput, cut: Continuation | None = None, /) -> Enter:
        """Return what enters the run of an input with answers, or one that was cut."""
        if cut is not None:
            return partial(self._enter_cut, input, cut)
        # The agent has the conversation, and so has the thread that the function opens.
        return partial(self._enter_answers, input.model_copy(update={"messages": [], "state": None}))

    async def _enter_cut(self, input: RunAgentInput, cut: Continuation, stack: AsyncExitStack) -> AgentRun:
        agent = await self._enter_agent(stack)
        return await stack.enter_async_context(continued_run(agent, input, cut, TRUSTING))

    async def _enter_answers(self, input: RunAgentInput, stack: AsyncExitStack) -> AgentRun:
        agent = await self._enter_agent(stack)
        # The input has the others: an answer is about the same run, with the same tools, headers and time-outs.
        given = {name: value for name, value in self._options.items() if value is not None}
        beside: Any = {name: given[name] for name in given.keys() - IN_INPUT}
        return await stack.enter_async_context(trusted_run(agent, input, beside))

    async def _enter_agent(self, stack: AsyncExitStack) -> Agent:
        chosen = self._open(self._thread_id)
        agent: Agent = chosen if isinstance(chosen, AbstractAgent) else await stack.enter_async_context(chosen)
        if agent.thread_id != self._thread_id:
            what = f"the function opened thread {agent.thread_id!r}, not {self._thread_id!r}"
            raise UsageError(f"{what}, which it was called with")
        return agent
