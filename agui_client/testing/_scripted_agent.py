"""An agent that follows a script, for tests with and without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, Unpack

from ag_ui.core import RunAgentInput

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.run.options import lists_keywords
from agui_client._core.run.scope import AgentOptions, StateT
from agui_client.testing._steps import Gate, Pause, ScriptContext, Step, closing, play

if TYPE_CHECKING:
    from agui_client._core.protocol.events import WireEvent

Turn: TypeAlias = Step | Sequence[Step] | Callable[[RunAgentInput], AsyncIterator[Step]]
"""The script of one run: a step, several steps, or an async generator function that yields them."""


@lists_keywords(AgentOptions)
class ScriptedAgent(AbstractAgent[StateT]):
    """Replies to each run of a conversation with the next turn of its script.

        agent = ScriptedAgent(
            turn(text("Let me look."), tool_call("get_weather", {"city": "Oslo"})),
            turn(text("18 degrees.")),
        )

    Every thread plays the script from its beginning; the last turn is that of every further run. `turn(...)` makes a
    whole run of its steps; a bare list is sent without RUN_STARTED and RUN_FINISHED. A function gets the input:

        async def echo(input: RunAgentInput) -> AsyncIterator[Step]:
            yield turn(text(f"You said: {input.messages[-1].content}"))

    It runs in this process like any other agent; `serve(agent)` serves it over HTTP.

    Args:
        *turns: The script, at least one turn.
        options: See `AgentOptions`; the agent's id is "scripted" if left out.
    """

    def __init__(self, *turns: Turn, **options: Unpack[AgentOptions[StateT]]) -> None:
        options.setdefault("agent_id", "scripted")
        options.setdefault("description", "Follows a script.")
        super().__init__(**options)
        if not turns:
            raise ValueError("a script needs at least one turn: ScriptedAgent(turn(text('Hi')))")
        self.inputs: list[RunAgentInput] = []
        """The inputs that arrived, in order, of all threads and clones together."""
        self._turns = turns
        self._played: dict[str, int] = {}

    async def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Play the next turn of the input's thread."""
        self.inputs.append(input)
        scene = ScriptContext(input)
        async with closing(_steps(self._next_turn(input.thread_id), input)) as steps:
            async for step in steps:
                for item in play(step, scene):
                    if isinstance(item, Pause | Gate):
                        await item.wait()
                    else:
                        yield item

    def _next_turn(self, thread_id: str) -> Turn:
        number = self._played.get(thread_id, 0)
        self._played[thread_id] = number + 1
        return self._turns[min(number, len(self._turns) - 1)]


async def _steps(turn: Turn, input: RunAgentInput) -> AsyncIterator[Step]:
    if callable(turn):
        async with closing(turn(input)) as steps:
            async for step in steps:
                yield step
    elif isinstance(turn, Sequence):
        for step in turn:
            yield step
    else:
        yield turn
