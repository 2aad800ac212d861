"""The service of docs/deploy.md, as the page has it: two workers, and all that the page promises of them."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from ag_ui.core import RunAgentInput

from agui_client import HttpAgent
from agui_client.asgi import agent_app
from agui_client.testing import ScriptedAgent, Step, pause, serve, text, tool_call, turn
from support.deployed import Deployed, deployed, write_programs
from support.postgres import PostgresServer
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

_POSTGRESQL = pytest.param(
    "postgresql",
    marks=pytest.mark.skipif("AGUI_THREADS" not in os.environ, reason="takes AGUI_THREADS=1, as .ci/run sets it"),
)
_SQLITE = pytest.param("sqlite", marks=pytest.mark.soak if "AGUI_THREADS" in os.environ else ())
"""A sample of the page, where its own database is not tried."""
_ANN, _BOB = {"Authorization": "Bearer 5f0c"}, {"Authorization": "Bearer 77aa"}


class Upstream:
    """The agent behind the service, and what it was asked."""

    def __init__(self) -> None:
        self.tokens: list[str | None] = []
        self.stories = 0
        self.app = agent_app(ScriptedAgent(self._answer), authorize=self._authorize)

    def _authorize(self, method: str, path: str, headers: Mapping[str, str]) -> bool:
        self.tokens.append(headers.get("authorization"))
        return True

    async def _answer(self, input: RunAgentInput) -> AsyncIterator[Step]:
        asked = [str(each.content) for each in input.messages if each.role == "user"][-1]
        if asked == "Tell me a story":
            self.stories += 1
            whole = turn(text("Once upon a time."))
            yield whole if self.stories > 1 else turn(text("Once"), pause(float("inf")))
        elif input.messages[-1].role == "tool":
            yield turn(text(f"Done: {input.messages[-1].content}"))
        else:
            yield turn(tool_call("pay", {"amount": 3}))


class Site:
    """The page's programs in a folder, the database, and the socket that all versions of the service share."""

    def __init__(self, folder: Path, database: str, upstream: Upstream, stack: ExitStack) -> None:
        write_programs(folder)
        self.upstream, self.folder, self._stack = upstream, folder, stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        agent = stack.enter_context(serve(upstream.app)).url
        self._environment = {"DATABASE_URL": database, "AGENT_URL": agent, "SERVICE_URL": self.url}
        self.client = _imported(folder / "client.py")

    async def start(self, name: str) -> Deployed:
        service = self._stack.enter_context(deployed(self.folder, self._listener, name, **self._environment))
        await asyncio.to_thread(service.wait_until_started)
        return service

    def page(self, thread_id: str) -> HttpAgent:
        return HttpAgent(f"{self.url}planner/", headers=_ANN, thread_id=thread_id, connect_url="connect")

    async def ask(self, prompt: str, thread_id: str, run_id: str) -> tuple[str, list[str | None]]:
        url = f"{self.url}planner/"
        result = await self.client.ask(url, "5f0c", prompt, thread_id=thread_id, run_id=run_id)
        return result.text, [each.message for each in result.interrupts]


def _imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("client", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=[_SQLITE, _POSTGRESQL])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    database = f"sqlite:///{tmp_path / 'service.db'}"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgresql")
        database = f"postgresql://{server.new_database()}"
    with ExitStack() as stack:
        yield Site(tmp_path, database, Upstream(), stack)


async def test_the_service_of_the_page_does_what_the_page_says(site: Site, request: pytest.FixtureRequest) -> None:
    old = await site.start("old")
    assert len(old.workers) == 2
    async with httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=30) as browser:
        assert (await browser.get("/ready")).status_code == 200
        await _a_call_is_approved_by_a_link(site, old, browser)
        new = await _a_deploy_is_not_noticed(site, old)
        if "postgresql" in request.node.callspec.id:
            await _an_outage_is_waited_for(site, browser, request.getfixturevalue("postgresql"))
        assert not any(b"5f0c" in each.read_bytes() for each in site.folder.glob("service.db*"))
        assert (await browser.delete("/me")).status_code == 401
        assert (await browser.delete("/me", headers=_BOB)).json() == 0
        assert (await browser.delete("/me", headers=_ANN)).json() > 0
        assert (await browser.post("/planner/runs", json={}, headers=_ANN)).json() == []
    gone = site.page("bills")
    await gone.connect_agent()
    assert gone.messages == []
    assert {*site.upstream.tokens} == {"Bearer token-of-ann"}
    assert new.stop() == 0


async def _a_call_is_approved_by_a_link(site: Site, service: Deployed, browser: httpx.AsyncClient) -> None:
    assert (await browser.post("/planner/")).status_code == 401
    assert await site.ask("Pay my bill", "bills", "run-1") == ("", ['Pay 3 NOK?\npay with {"amount": 3}'])
    link = service.wait_for(rf"mail to ann: Pay 3 NOK\?\npay with .* ({site.url}approve\S+)")[1]
    assert (await browser.get(link)).status_code == 401
    assert (await browser.get(link, headers=_BOB)).status_code == 409
    assert (await browser.post(link, headers=_BOB)).status_code == 409
    shown = await browser.get(link, headers={"Cookie": "session=5f0c"})
    assert "<p>Pay 3 NOK?\npay with {&quot;amount&quot;: 3}<form method=post>" in shown.text
    assert (await browser.post(link, headers=_ANN)).text == "Approved."
    assert (await browser.post(link, headers=_ANN)).status_code == 409
    page = site.page("bills")
    await page.connect_agent()
    assert str(page.messages[-1].content) == "Done: 3 NOK paid"
    assert len(re.findall(r"payment \S+: 3 NOK", service.log)) == 1
    assert await site.ask("Pay my bill", "bills", "run-1") == ("", ['Pay 3 NOK?\npay with {"amount": 3}']), (
        "the same request is the same run"
    )


async def _a_deploy_is_not_noticed(site: Site, old: Deployed) -> Deployed:
    story = asyncio.create_task(site.ask("Tell me a story", "stories", "run-2"))
    await until(lambda: site.upstream.stories)
    new = await site.start("new")
    assert await asyncio.to_thread(old.stop) == 0
    assert (await asyncio.wait_for(story, 30))[0] == "Once upon a time."
    assert site.upstream.stories == 2
    assert "payment" not in new.log
    return new


async def _an_outage_is_waited_for(site: Site, browser: httpx.AsyncClient, database: PostgresServer) -> None:
    database.stop()
    try:
        assert (await browser.get("/ready")).status_code == 503
        waiting = asyncio.create_task(site.ask("Pay my bill", "more", "run-3"))
        assert not (await asyncio.wait([waiting], timeout=1))[0]
    finally:
        database.start()
    assert await asyncio.wait_for(waiting, 30) == ("", ['Pay 3 NOK?\npay with {"amount": 3}'])
    assert (await browser.get("/ready")).status_code == 200
