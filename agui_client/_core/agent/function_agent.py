"""FunctionAgent: a function as an agent in this process; it yields events, or yields or returns text."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack, cast
from uuid import uuid4

from ag_ui.core import RunFinishedEvent, RunFinishedSuccessOutcome, RunStartedEvent, TextMessageChunkEvent

from agui_client._core.agent.agent import AbstractAgent, as_run_input
from agui_client._core.ground.concurrency import call_aside
from agui_client._core.run.options import lists_keywords
from agui_client._core.run.scope import AgentOptions, StateT
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from agui_client._core.protocol.events import WireEvent

    Answer: TypeAlias = (
        AsyncIterator[WireEvent] | AsyncIterator[str] | Generator[WireEvent] | Generator[str] | Awaitable[str] | str
    )
    AgentFunction: TypeAlias = Callable[[RunAgentInput], Answer]

_ANSWERS = "yields events or text, or returns text"
_END: Final = object()


@lists_keywords(AgentOptions)
class FunctionAgent(AbstractAgent[StateT]):
    """An agent that is one function: `FunctionAgent(echo)`, with `async def echo(input): yield "You said..."`.

    Args:
        function: Takes a `RunAgentInput`. It yields pieces of the reply's text, or the events of the run, or returns
            the text; it may be async or not. A plain generator is iterated in a thread, and so is a plain function
            called that is annotated to return `str`; any other is called in the event loop. Its name is the agent's id,
            and the first line of its docstring the description, unless the options give others.
        options: See `AgentOptions`.

    Raises:
        UsageError: It is not a function.
    """

    def __init__(self, function: AgentFunction, **options: Unpack[AgentOptions[StateT]]) -> None:
        if not options.get("agent_id"):
            options.update({"agent_id": getattr(function, "__name__", None)})
        if options.get("description") is None:
            options.update({"description": _first_line(function)})
        super().__init__(**options)
        if not callable(function):
            raise UsageError(f"a FunctionAgent needs a function that {_ANSWERS}, not {function!r}")
        self._function: Callable[[RunAgentInput], object] = function
        self._is_plain = _returns_text(function)

    def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Call the function.

        Args:
            input: The input of the run.

        Returns:
            The events that the function yields, or those of the text that it yields or returns.
        """
        run_input = as_run_input(input)
        if self._is_plain:
            return _Answer(call_aside(partial(self._function, run_input), self.agent_id), run_input)
        answer = self._function(run_input)
        return _Answer(answer, run_input) if _is_answer(answer) else cast("AsyncIterator[WireEvent]", answer)


def _is_answer(value: object) -> bool:
    return isinstance(value, str | Generator | AsyncGenerator) or inspect.isawaitable(value)


class _Answer(AsyncIterator[Any]):
    """The events of a function's reply, whose first piece shows whether it is text or events."""

    def __init__(self, answer: object, run_input: RunAgentInput) -> None:
        given = cast("AsyncGenerator[Any]", answer)
        self._pieces: AsyncGenerator[Any] = given if inspect.isasyncgen(answer) else _pieces(answer)
        self._events = self._pieces
        self._input = run_input
        self._next: Callable[[], Awaitable[Any]] = self._first

    def __anext__(self) -> Awaitable[Any]:
        return self._next()

    async def _first(self) -> Any:
        piece: object = await anext(self._pieces)
        if isinstance(piece, str):
            self._events = _spoken(piece, self._pieces, self._input)
            piece = await anext(self._events)
        # Without a step in between from now on.
        self._next = self.__anext__ = self._events.__anext__  # type: ignore[method-assign]
        return piece

    async def aclose(self) -> None:
        """Close the function's generator."""
        await self._events.aclose()
        await self._pieces.aclose()


async def _pieces(answer: object) -> AsyncGenerator[object]:
    """Yield the pieces of a reply that is not an async generator."""
    if isinstance(answer, Generator):
        pieces = cast("Generator[object]", answer)
        try:
            while (piece := await call_aside(partial(next, pieces, _END), "FunctionAgent")) is not _END:
                yield piece
        finally:
            # A thread that was left in the middle still uses it.
            with suppress(ValueError):
                pieces.close()
        return
    made: object = await answer if inspect.isawaitable(answer) else answer
    if isinstance(made, str):
        yield made
    elif isinstance(made, AsyncIterator):
        async for piece in cast("AsyncIterator[object]", made):
            yield piece
    else:
        raise UsageError(f"the function of a FunctionAgent {_ANSWERS}, not {made!r}")


async def _spoken(first: str, others: AsyncGenerator[object], run_input: RunAgentInput) -> AsyncGenerator[Any]:
    """Yield the events of a run that replies with text; events among the pieces stay between them."""
    thread_id, run_id, message_id = run_input.thread_id, run_input.run_id, str(uuid4())
    yield RunStartedEvent(thread_id=thread_id, run_id=run_id)
    async with aclosing(others):
        yield TextMessageChunkEvent(message_id=message_id, delta=first)
        async for piece in others:
            yield TextMessageChunkEvent(message_id=message_id, delta=piece) if isinstance(piece, str) else piece
    yield RunFinishedEvent(thread_id=thread_id, run_id=run_id, outcome=RunFinishedSuccessOutcome())


def _returns_text(function: object) -> bool:
    """Return whether a plain function says that it returns text."""
    if not inspect.isroutine(function) or inspect.iscoroutinefunction(function):
        return False
    return getattr(function, "__annotations__", {}).get("return") in (str, "str")


def _first_line(function: object) -> str:
    """Return the first line of a function's docstring; other objects have their class's."""
    text = inspect.getdoc(function) if inspect.isroutine(function) else None
    return (text or "").partition("\n")[0]
