"""What an agent declares to be able to do: given, overridden or fetched, and never guessed."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from ag_ui.core import AgentCapabilities, ToolsCapabilities
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agui_client import (
    ConnectError,
    DecodeError,
    FunctionAgent,
    HttpAgent,
    HTTPStatusError,
    IdleTimeoutError,
    Timeouts,
    UnexpectedContentTypeError,
    UsageError,
)
from agui_client.asgi import agent_app
from agui_client.errors import StreamTooLargeError
from agui_client.testing import Reply, ScriptedAgent, serve_bytes, text, tool_call, tool_result, turn

pytestmark = pytest.mark.anyio
DECLARED = AgentCapabilities(tools=ToolsCapabilities(supported=False))
DOCUMENT = {"tools": {"supported": False}}


class Declaring:
    """An app with an agent, and a document beside it."""

    def __init__(self, document: Any, *, status: int = 200, kind: str = "application/json", token: str = "") -> None:
        self.requests: list[str] = []
        self._body = document if isinstance(document, str) else json.dumps(document)
        self._status, self._kind, self._token = status, kind, token
        self._app = Starlette(routes=[Route("/capabilities", self._declare)])
        self._app.mount("/", agent_app(ScriptedAgent(turn(text("Hi")))))

    async def _declare(self, request: Request) -> Response:
        self.requests.append(request.headers["accept"])
        if self._token and request.headers.get("authorization") != self._token:
            return Response(status_code=401)
        return Response(self._body, self._status, media_type=self._kind)

    def agent(self, **options: Any) -> HttpAgent:
        return HttpAgent("http://app/", app=self._app, capabilities_url="capabilities", **options)


async def declared_by(agent: HttpAgent) -> AgentCapabilities | None:
    with anyio.fail_after(10):
        return await agent.capabilities()


@pytest.mark.requirement("CAP-1", "CAP-8")
async def test_an_agent_declares_what_it_was_given_and_nothing_else() -> None:
    assert await ScriptedAgent(turn()).capabilities() is None
    assert await HttpAgent("http://app/").capabilities() is None
    given = await ScriptedAgent(turn(), capabilities=DECLARED).clone().capabilities()
    assert given is not None
    assert given.tools is not None
    assert (given.tools.supported, given.tools.parallel_calls, given.reasoning) == (False, None, None)
    assert await HttpAgent("http://app/", capabilities=DECLARED).capabilities() == DECLARED


async def test_a_subclass_says_what_it_can_do() -> None:
    class Able(FunctionAgent):
        async def capabilities(self) -> AgentCapabilities:
            return DECLARED

    assert await Able(ScriptedAgent(turn()).run).capabilities() == DECLARED


@pytest.mark.requirement("CAP-3", "CAP-5")
async def test_a_declaration_is_fetched_with_members_that_nobody_knows() -> None:
    document = {**DOCUMENT, "identity": {"name": "Ada", "metadata": {"mine": 1}}, "custom": {"x": None}, "odd": 2}
    served = Declaring(document)
    declared = await declared_by(served.agent())
    assert declared is not None
    assert declared.model_dump(by_alias=True) == document
    assert served.requests == ["application/json"]


@pytest.mark.requirement("CAP-3")
@pytest.mark.parametrize("document", [{"tools": {"supported": "no"}}, {"tools": 1}, [], "{"])
async def test_a_declaration_with_a_malformed_member_is_not_used(document: Any) -> None:
    with pytest.raises(DecodeError, match="capabilities cannot be used") as caught:
        await declared_by(Declaring(document).agent())
    assert caught.value.rule == "CAP-3"


async def test_a_declaration_is_fetched_with_credentials_which_are_renewed() -> None:
    served = Declaring(DOCUMENT, token="new")
    agent = served.agent(headers={"authorization": "old"}, on_unauthorized=lambda: {"authorization": "new"})
    assert await declared_by(agent) == DECLARED
    assert len(served.requests) == 2


@pytest.mark.requirement("CAP-4")
@pytest.mark.parametrize(
    ("served", "error"),
    [
        (Declaring("no", status=404), HTTPStatusError),
        (Declaring("<html>", kind="text/html"), UnexpectedContentTypeError),
        (Declaring({"custom": {"x": "x" * 2000}}), StreamTooLargeError),
    ],
)
async def test_a_declaration_that_does_not_come_is_an_error_for_no_run(
    served: Declaring, error: type[Exception]
) -> None:
    agent = served.agent(max_event_bytes=1000)
    with pytest.raises(error):
        await declared_by(agent)
    with anyio.fail_after(10):
        assert (await agent.run_agent("Hello")).text == "Hi"


@pytest.mark.requirement("CAP-2")
async def test_no_run_is_held_against_a_declaration() -> None:
    agent = ScriptedAgent(turn(tool_call("look", {}), tool_result("sun"), text("Sunny.")), capabilities=DECLARED)
    result = await agent.run_agent("Look.")
    assert (result.text, result.warnings) == ("Sunny.", [])


@pytest.mark.parametrize("wrong", [{"capabilities": {}}, {"capabilities": DECLARED, "capabilities_url": "x"}])
def test_a_declaration_is_a_model_or_an_address(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="capabilities"):
        HttpAgent("http://app/", **wrong)


CUT = Reply([b'{"tools":'], content_type="application/json", end="reset")
STALLED = Reply([b'{"tools":'], content_type="application/json", end="stall")


@pytest.mark.parametrize(("reply", "error"), [(CUT, ConnectError), (STALLED, IdleTimeoutError)], ids=["cut", "stalled"])
async def test_a_declaration_that_breaks_off_says_how(reply: Reply, error: type[Exception]) -> None:
    with serve_bytes(reply) as server, pytest.raises(error):
        await declared_by(HttpAgent(server.url, capabilities_url="capabilities", timeout=Timeouts(idle=0.1)))
