"""A producer that follows a script, for tests with and without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui.core import RunAgentInput

from agui_client.agent import AbstractAgent
from agui_client.testing.closing import closing
from agui_client.testing.steps import Gate, Pause, Scene, Step, play

if TYPE_CHECKING:
    from ag_ui.core import Message

    from agui_client._pipeline import NullFields
    from agui_client._pipeline.events import WireEvent
    from agui_client._pipeline.middleware import Middleware
    from agui_client._surfaces.abort import OnAbort
    from agui_client._tools.approval import Approver
    from agui_client._tools.limits import ToolLimits
    from agui_client._tools.offer import ToolSource
    from agui_client.interrupts import Answerer

Turn: TypeAlias = Step | Sequence[Step] | Callable[[RunAgentInput], AsyncIterator[Step]]
"""What answers one run: a step, several, or an async generator function that yields them."""


class ScriptedAgent(AbstractAgent):
    """Answers each run of a conversation with the next turn of its script.

        agent = ScriptedAgent(
            turn(text("Let me look."), tool_call("get_weather", {"city": "Oslo"})),
            turn(text("18 degrees.")),
        )

    Every thread plays the script from its beginning; the last turn answers every further run. What a turn yields is
    sent as it stands: `turn(...)` makes a whole run of it, a bare list is exactly its steps. A function sees the input:

        async def echo(input: RunAgentInput) -> AsyncIterator[Step]:
            yield turn(text(f"You said: {input.messages[-1].content}"))

    In process it is an agent like any other; `serve(agent)` puts it behind HTTP.

    Args:
        *turns: The script, at least one turn.
        agent_id: What the application calls this agent.
        thread_id: The conversation to go on with, in process; a new one if left out.
        initial_messages: What was said before, in process.
        initial_state: The state both sides write, in process; `{}` if left out.
        tools: Tools of the application that the agent may call, in process.
        approve: See `AbstractAgent`.
        answer: See `AbstractAgent`.
        tool_limits: See `AbstractAgent`.
        on_abort: See `AbstractAgent`.
        middleware: Functions around each run in process, outermost first.
        null_fields: See `AbstractAgent`.
        strict: See `AbstractAgent`.
    """

    def __init__(
        self,
        *turns: Turn,
        agent_id: str = "scripted",
        thread_id: str | None = None,
        initial_messages: Iterable[Message] = (),
        initial_state: Any = None,
        tools: ToolSource = (),
        approve: Approver | None = None,
        answer: Answerer | None = None,
        tool_limits: ToolLimits | None = None,
        on_abort: OnAbort | None = None,
        middleware: Iterable[Middleware] = (),
        null_fields: NullFields = "reject",
        strict: bool = False,
    ) -> None:
        super().__init__(
            agent_id=agent_id,
            description="Follows a script.",
            thread_id=thread_id,
            initial_messages=initial_messages,
            initial_state=initial_state,
            tools=tools,
            approve=approve,
            answer=answer,
            tool_limits=tool_limits,
            on_abort=on_abort,
            middleware=middleware,
            null_fields=null_fields,
            strict=strict,
        )
        if not turns:
            raise ValueError("a script needs at least one turn: ScriptedAgent(turn(text('Hi')))")
        self.inputs: list[RunAgentInput] = []
        """Every input that arrived, in order, all threads and clones together."""
        self._turns = turns
        self._played: dict[str, int] = {}

    async def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Perform the next turn of the input's thread."""
        self.inputs.append(input)
        scene = Scene(input)
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
