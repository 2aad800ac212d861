"""An agent as a LangChain `Runnable`, alone, in a chain, or in a node of a LangGraph graph."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, closing, suppress
from typing import TYPE_CHECKING, Any

from ag_ui.core import RunFinishedEvent

try:
    from langchain_core.messages import AIMessage, AIMessageChunk
    from langchain_core.messages.ai import UsageMetadata
    from langchain_core.messages.tool import tool_call_chunk
    from langchain_core.runnables import RunnableGenerator
except ModuleNotFoundError as _missing:
    raise ImportError("langchain_runnable() needs LangChain: pip install 'agui-client[langchain]'") from _missing

from agui_client._core.ground.concurrency import iterated
from agui_client._core.verbs.async_run import ReplyText
from agui_client.adapters._langchain_messages import messages_of
from agui_client.adapters._questions import asked_by, is_question, question_of, resumed
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.runnables import Runnable

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.run.options import RunOptions


def runnable_of(agent: AbstractAgent[Any]) -> Runnable[Any, AIMessage]:
    """Make an agent a runnable: see `langchain_runnable`."""

    def answer(given: Iterator[Any]) -> Iterator[AIMessageChunk]:
        """Run the agent once."""
        with closing(iterated(_answer(*_begun(agent, [*given])))) as chunks:
            for each in chunks:
                yield _chunk_or_question(each)

    async def answer_async(given: AsyncIterator[Any]) -> AsyncIterator[AIMessageChunk]:
        """Run the agent once."""
        async with aclosing(_answer(*_begun(agent, [each async for each in given]))) as chunks:
            async for each in chunks:
                yield _chunk_or_question(each)

    return RunnableGenerator(answer, answer_async, name=agent.name or "agent")


def _begun(agent: AbstractAgent[Any], given: list[Any]) -> tuple[AbstractAgent[Any], RunOptions]:
    """Return a clone with the conversation, and the keywords of its run."""
    ours = agent.clone()
    if (answered := _answered()) is not None:
        return ours, resumed(ours, answered)
    ours.set_messages(messages_of(given))
    return ours, {}


async def _answer(agent: AbstractAgent[Any], options: RunOptions) -> AsyncGenerator[AIMessageChunk | dict[str, Any]]:
    """Yield the reply of an agent as it comes, and then what it asks, if it does."""
    text, last, has_text = ReplyText(), None, False
    async with agent.stream(**options) as run:
        async for event in run:
            if isinstance(event, RunFinishedEvent):
                last = event
            elif delta := text.text_in(event):
                has_text = True
                yield AIMessageChunk(content=delta)
        result = await run.result()
    if asked := asked_by(run, last):
        yield question_of(agent, asked)
        return
    used = [(each.input_tokens or 0, each.output_tokens or 0) for each in result.usage or ()]
    given, got = (sum(each) for each in zip(*used, strict=True)) if used else (0, 0)
    usage = UsageMetadata(input_tokens=given, output_tokens=got, total_tokens=given + got) if used else None
    calls = [
        tool_call_chunk(name=each.function.name, args=each.function.arguments, id=each.id, index=at)
        for at, each in enumerate(result.pending_tool_calls)
    ]
    # Servers that send snapshots alone stream no text.
    yield AIMessageChunk(content="" if has_text else result.text, usage_metadata=usage, tool_call_chunks=calls)


def _chunk_or_question(each: AIMessageChunk | dict[str, Any]) -> AIMessageChunk:
    """Return a chunk; interrupt the graph for a question.

    Raises:
        UsageError: There is no graph that could be interrupted.
    """
    if isinstance(each, AIMessageChunk):
        return each
    if (interrupt := _interrupt()) is not None:
        with suppress(KeyError, RuntimeError):  # no graph, or none with a checkpointer
            interrupt(each)
    texts = "; ".join(str(one.get("message") or one["reason"]) for one in each["interrupts"])
    what = f"the agent asks people, and no graph of LangGraph with a checkpointer passes it on: {texts}"
    raise UsageError(f"{what}; call it in a node of one, or give the agent approve= or answer=")


def _interrupt() -> Callable[[Any], Any] | None:
    """Return the function that interrupts the graph; None outside graphs."""
    try:
        from langgraph.types import interrupt
    except ModuleNotFoundError:
        return None
    function: Callable[[Any], Any] = interrupt
    return function


def _answered() -> Mapping[str, Any] | None:
    """Return the latest answer that the graph is resumed with; None if it is not.

    LangGraph calls a node from its beginning, and gives the answers so far to one `interrupt` after the other. So all
    are asked for before the agent is, which has the questions before the latest one behind it.
    """
    if (interrupt := _interrupt()) is None:
        return None
    from langgraph.errors import GraphInterrupt

    answered: Any = None
    while True:
        try:
            answered = interrupt(None)
        except (GraphInterrupt, KeyError, RuntimeError):  # no answer is left; no graph, or none with a checkpointer
            break
    if answered is not None and not is_question(answered):
        raise UsageError(
            "resume the graph with the value of its interrupt, and answers: Command(resume={**value, ...})"
        )
    return answered
