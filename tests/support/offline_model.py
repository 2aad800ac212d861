"""pydantic-ai's AG-UI server with a model that runs offline: a script of calls and texts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_ai import Agent
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from agui_client.testing import serve

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from starlette.responses import Response

Heard: TypeAlias = tuple[str, Any]
"""The kind and the content of one part that the model was given."""
Saying: TypeAlias = "str | Sequence[tuple[str, str, str]]"
"""What the model says: text, or calls, each with its tool, its id and its arguments."""
Script: TypeAlias = Callable[[Sequence[Heard]], Saying]
"""From what the model was given to what it says."""


class OfflineModel:
    """A model, and what it was given and offered in each of its turns.

    Args:
        script: What it says.
    """

    def __init__(self, script: Script) -> None:
        self.given: list[list[Heard]] = []
        self.offered: list[list[str]] = []
        self.model = FunctionModel(stream_function=self._stream)
        self._script = script

    async def _stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        given: list[Heard] = [
            (part.part_kind, getattr(part, "content", None) or getattr(part, "args", None))
            for message in messages
            for part in message.parts
        ]
        self.given.append(given)
        self.offered.append([tool.name for tool in info.function_tools])
        said = self._script(given)
        if isinstance(said, str):
            yield said
            return
        # One after the other: the adapter ends a call when the next begins, and breaks the protocol if it goes on.
        for index, (name, tool_call_id, arguments) in enumerate(said):
            yield {index: DeltaToolCall(name=name, tool_call_id=tool_call_id)}
            for start in range(0, len(arguments), 5):
                yield {index: DeltaToolCall(json_args=arguments[start : start + 5], tool_call_id=tool_call_id)}


class House:
    """One server for many agents, each at an address of its own: to stop a server takes longer than most tests."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._agents: dict[str, Callable[[Request], Awaitable[Response]]] = {}

    async def _answer(self, request: Request) -> Response:
        return await self._agents[request.path_params["number"]](request)

    @contextmanager
    def opened(self) -> Generator[None]:
        """Serve whoever moves in while the block lasts."""
        with serve(Starlette(routes=[Route("/{number}/", self._answer, methods=["POST"])])) as server:
            self._url = server.url
            yield

    @contextmanager
    def served(self, agent: Agent[Any, Any], **dispatch: Any) -> Generator[str]:
        """Serve an agent through pydantic-ai's adapter; gives its address, which nobody had before."""

        async def endpoint(request: Request) -> Response:
            return await AGUIAdapter.dispatch_request(request, agent=agent, **dispatch)

        number = str(next(self._numbers))
        self._agents[number] = endpoint
        yield f"{self._url}{number}/"
        del self._agents[number]


@contextmanager
def served_alone(agent: Agent[Any, Any]) -> Generator[str]:
    """Serve an agent on a server of its own."""
    house = House()
    with house.opened(), house.served(agent) as url:
        yield url


def returned(given: Sequence[Heard]) -> list[Any]:
    """The results of tools at the end of what the model was given."""
    results: list[Any] = []
    for kind, content in reversed(given):
        if kind not in ("tool-return", "retry-prompt"):
            break
        results.insert(0, content)
    return results
