"""One story for each extra, with the installed package alone: nothing of the checkout is on the path.

python tests/programs/installed.py [--url URL] [EXTRA ...]

Without a name, the stories of all extras run; without the address of a demo agent, they serve one, which needs uvicorn.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.remove(str(Path(__file__).parent))

from ag_ui.core import TokenUsage

import agui_client
from agui_client import HttpAgent, Resolve, ToolLimits, answer_model, tool
from agui_client.demo import demo_agent
from agui_client.store import Store
from agui_client.testing import ScriptedAgent, serve, text, tool_call, turn

QUESTION = "What shall I do in Oslo?"


@tool
def get_weather(city: str) -> str:
    """Current weather for a city."""
    return f"18 degrees in {city}"


def _answer(agent: HttpAgent) -> None:
    result = agent.run_agent_sync(QUESTION)
    assert "outdoors" in result.text, result.text
    assert not result.warnings, result.warnings


def plain(url: str) -> None:
    """Run an agent, without any extra."""
    _answer(HttpAgent(url))
    agent = ScriptedAgent(turn(tool_call("get_weather", {"city": "Oslo"})), turn(text("Clear.")), tools=[get_weather])
    assert [each.status for each in agent.run_agent_sync("Weather?").tool_executions] == ["succeeded"]


def answers(url: str) -> None:
    """Answer a question of the agent with a model of its schema."""
    agent = HttpAgent(url)
    (question,) = agent.run_agent_sync("Book the ferry").interrupts
    model = answer_model(question)
    assert model is not None
    assert agent.run_agent_sync(resume={question.id: Resolve(model(approved=True))}).text


def aws(url: str) -> None:
    """Sign the request of a run, with credentials of the environment."""
    import httpx

    from agui_client.aws import AgentCoreAuth

    signed: list[bool] = []

    async def note(request: httpx.Request) -> None:
        signed.append("AKIDEXAMPLE/" in request.headers["authorization"])

    os.environ |= {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "no secret"}
    client = partial(httpx.AsyncClient, event_hooks={"request": [note]})
    _answer(HttpAgent(url, auth=AgentCoreAuth("eu-central-1"), http_client=client))
    assert signed
    assert all(signed)


def batch(url: str) -> None:
    """Run an agent on the rows of a Parquet file."""
    from agui_client.batch import run_many

    arrow: Any = import_module("pyarrow")  # which has no types
    parquet: Any = import_module("pyarrow.parquet")
    parquet.write_table(arrow.table({"question": [QUESTION, "And if it rains?"]}), "rows.parquet")
    rows = list(run_many(HttpAgent(url), "rows.parquet", prompt="question", journal="rows.jsonl"))
    assert [row.error for row in rows] == [None, None]


def cli(url: str) -> None:
    """Run the demo, and an agent, by the command."""
    agui = Path(sysconfig.get_path("scripts"), "agui")
    for arguments in (["demo"], ["run", url, QUESTION], ["--help"]):
        done = subprocess.run([agui, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert "Oslo" in done.stdout or "Usage" in done.stdout, done.stdout


def cost(url: str) -> None:
    """Count the money of a model that genai-prices knows."""
    usage = [TokenUsage(provider="openai", model="gpt-5", input_tokens=1_000, output_tokens=10)]
    agent = ScriptedAgent(turn(text("Hi."), usage=usage), tool_limits=ToolLimits(cost="1.00 USD"))
    spent = agent.run_agent_sync("Hi").cost()
    assert spent.dollars
    assert not spent.unknown


def evaluate(url: str) -> None:
    """Evaluate an agent by scenarios in YAML."""
    from agui_client.evaluation import evaluate_sync

    scenario = f"{{name: plan, says: [{QUESTION!r}], checks: [said: Oslo]}}"
    Path("scenarios.yaml").write_text(f"scenarios: [{scenario}]", "utf-8")
    assert evaluate_sync(HttpAgent(url), "scenarios.yaml").passed


def fast(url: str) -> None:
    """Run an agent with aiohttp."""
    from agui_client.fast import fast_client

    _answer(HttpAgent(url, http_client=fast_client))


def http2(url: str) -> None:
    """Run an agent with a client that offers HTTP/2."""
    import httpx

    _answer(HttpAgent(url, http_client=lambda: httpx.AsyncClient(http2=True)))


def langchain(url: str) -> None:
    """Ask the agent in a chain."""
    from langchain_core.output_parsers import StrOutputParser

    from agui_client.adapters import langchain_runnable

    assert (langchain_runnable(HttpAgent(url)) | StrOutputParser()).invoke(QUESTION)


def llm(url: str) -> None:
    """Run an agent of a model."""
    del url
    from pydantic_ai.models.test import TestModel

    from agui_client.llm import LLMAgent

    agent = LLMAgent(TestModel(custom_output_text="A clear day."))
    assert agent.run_agent_sync(QUESTION).text == "A clear day."


def pydantic_ai(url: str) -> None:
    """Ask the agent in the place of a model."""
    from pydantic_ai import Agent

    from agui_client.adapters import pydantic_ai_model

    assert Agent(pydantic_ai_model(HttpAgent(url))).run_sync(QUESTION).output


def mcp(url: str) -> None:
    """Offer the tools of an MCP server."""
    from mcp.server.mcpserver import MCPServer

    from agui_client.mcp import mcp_server

    house = MCPServer("house")

    @house.tool()
    def get_weather(city: str) -> str:
        """Tell the weather in a city."""
        return f"18 degrees in {city}"

    result = HttpAgent(url, tools=[mcp_server(house)]).run_agent_sync(QUESTION)
    assert [(each.name, each.status) for each in result.tool_executions] == [("get_weather", "succeeded")]


def notebook(url: str) -> None:
    """Display a result as a notebook does, and load the widgets."""
    from agui_client.notebook import NotebookAnswerer, NotebookApprover

    agent = HttpAgent(url, approve=NotebookApprover(), answer=NotebookAnswerer())
    page = agent.run_agent_sync(QUESTION)._repr_mimebundle_()["text/html"]
    assert "Opera House" in page


def otel(url: str) -> None:
    """Send the trace of the program along with a request."""
    import httpx
    from opentelemetry import trace

    sent: list[str] = []

    async def note(request: httpx.Request) -> None:
        sent.append(request.headers["traceparent"])

    span = trace.NonRecordingSpan(trace.SpanContext(trace_id=1, span_id=2, is_remote=False))
    with trace.use_span(span):
        _answer(HttpAgent(url, http_client=lambda: httpx.AsyncClient(event_hooks={"request": [note]})))
    assert sent == [f"00-{1:032x}-{2:016x}-00"]


def pytest(url: str) -> None:
    """Record a run with the fixture of the plugin, and replay it."""
    Path("test_cassette.py").write_text(
        "from agui_client import HttpAgent\n\n\n"
        "def test_answer(agui_cassette):\n"
        f"    assert 'outdoors' in HttpAgent({url!r}).run_agent_sync({QUESTION!r}).text\n"
    )
    for option in ("--agui-record=once", "--agui-block-network"):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", option, "test_cassette.py"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout


def store(url: str) -> None:
    """Keep a thread in a database, and go on with it in a run that is followed."""

    async def follow() -> list[str]:
        async with Store("sqlite:///store.db") as kept:
            kept.runs.add("guide", lambda thread_id: kept.threads.open(thread_id, HttpAgent(url)))
            run = await kept.runs.start("guide", QUESTION, thread_id="thread-1")
            return [event.type async for _, event in kept.runs.follow(run.run_id)]

    with Store("sqlite:///store.db") as first, first.threads.open("thread-1", HttpAgent(url)) as agent:
        agent.run_agent_sync(QUESTION)
    types = asyncio.run(follow())
    assert (types[0], types[-1]) == ("RUN_STARTED", "RUN_FINISHED"), types
    with Store("sqlite:///store.db") as again:
        saved = again.threads.get("thread-1").result()
    assert saved is not None
    assert [each.content for each in saved.conversation.messages if each.role == "user"] == [QUESTION] * 2


STORIES: dict[str, Callable[[str], None]] = {
    story.__name__.replace("_", "-"): story
    for story in (
        plain,
        answers,
        aws,
        batch,
        cli,
        cost,
        evaluate,
        fast,
        http2,
        langchain,
        llm,
        mcp,
        notebook,
        otel,
        pydantic_ai,
        pytest,
        store,
    )
}


def main() -> None:
    """Run stories in a folder of their own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", metavar="EXTRA", default=[*STORIES])
    parser.add_argument("--url")
    given = parser.parse_args()
    logging.disable(logging.INFO)  # an MCP server logs to the terminal
    package = Path(agui_client.__file__).parent
    assert package.is_relative_to(sysconfig.get_path("purelib")), f"{package} is not the installed package"
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(stack.enter_context(tempfile.TemporaryDirectory())))
        url = given.url or stack.enter_context(serve(demo_agent(pace=0))).url
        for extra in given.extras:
            STORIES[extra](url)
            print(f"{extra}: passed", flush=True)


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)  # that of the processes which the stories start
    main()
