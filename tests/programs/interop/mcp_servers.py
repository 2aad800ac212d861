"""`python -m tests.programs.interop.mcp_servers`: a tool server that others wrote, and what holds with it.

The server is `@modelcontextprotocol/server-everything`, installed by npm, over stdio and over streamable HTTP.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
from ag_ui.core import Interrupt

from agui_client import ConversationSnapshot, Resolve, RunResult
from agui_client.mcp import StdioServerParameters, mcp_server
from agui_client.testing import ScriptedAgent, text, tool_call, turn

PACKAGE, VERSION = "@modelcontextprotocol/server-everything", "2026.8.31"
SECONDS = 60.0
SLOW = ("trigger-long-running-operation", {"duration": 2, "steps": 4})
ASKING = ("trigger-elicitation-request", dict[str, Any]())

Made = StdioServerParameters | str
Story = Callable[[Made], Awaitable[None]]


async def asked(server: Any, *calls: tuple[str, dict[str, Any]], **options: Any) -> tuple[ScriptedAgent, RunResult]:
    """Have an agent make one call a run."""
    agent = ScriptedAgent(*(turn(tool_call(*call)) for call in calls), turn(text("Done.")), tools=server, **options)
    return agent, await agent.run_agent("Hi")


def contents(result: RunResult) -> list[Any]:
    return [each.message.content for each in result.tool_executions if each.message is not None]


async def tools_are_listed_and_called(made: Made) -> None:
    agent, result = await asked(mcp_server(made), ("echo", {"message": "hi"}), ("get-sum", {"a": 2, "b": 3}))
    assert {"echo", "get-sum", "get-tiny-image"} <= {tool.name for tool in agent.inputs[0].tools or ()}
    echoed, added = contents(result)
    assert echoed == "Echo: hi"
    assert "5" in added


async def an_image_is_a_content_part(made: Made) -> None:
    _, result = await asked(mcp_server(made), ("get-tiny-image", {}))
    [parts] = contents(result)
    assert "image" in [part.type for part in parts]


async def structured_content_is_json(made: Made) -> None:
    _, result = await asked(mcp_server(made), ("get-structured-content", {"location": "New York"}))
    assert "temperature" in json.loads(contents(result)[0])


async def an_error_of_the_server_is_a_failed_call(made: Made) -> None:
    _, result = await asked(mcp_server(made), ("gzip-file-as-resource", {"name": "a", "data": "ftp://nowhere/"}))
    [execution] = result.tool_executions
    assert (execution.status, execution.error) == ("failed", "ToolError")


async def progress_is_reported(made: Made) -> None:
    _, result = await asked(mcp_server(made), SLOW)
    assert [each["progress"] for each in result.tool_executions[0].progress] == [1, 2, 3, 4]


async def a_question_is_answered_at_once(made: Made) -> None:
    def answer(question: Interrupt) -> Resolve:
        return Resolve({"name": "Ann"})

    _, result = await asked(mcp_server(made), ASKING, answer=answer)
    assert "Ann" in str(contents(result))


async def a_question_is_answered_later_in_another_conversation(made: Made) -> None:
    agent, result = await asked(mcp_server(made), ASKING)
    [question] = result.interrupts
    saved = agent.snapshot().model_dump_json()
    later = ScriptedAgent(turn(text("Done.")), tools=mcp_server(made))
    later.restore(ConversationSnapshot.model_validate_json(saved))
    result = await later.run_agent(resume={question.id: Resolve({"name": "Bob"})})
    assert "Bob" in str(contents(result))


async def a_server_that_dies_in_mid_call_is_started_again(made: Made) -> None:
    async with mcp_server(made) as server, anyio.create_task_group() as tasks:
        tasks.start_soon(kill_when_it_works)
        _, result = await asked(server, SLOW, ("echo", {"message": "again"}))
        died, again = contents(result)
        assert "went away" in died
        assert again == "Echo: again"


async def kill_when_it_works() -> None:
    while not (servers := own_servers()):  # noqa: ASYNC110 - a process tells nobody that it runs
        await anyio.sleep(0.05)
    await anyio.sleep(1.5)  # it has the call by then, and is at work for two seconds
    for process in servers:
        process.kill()


def own_servers() -> list[psutil.Process]:
    """Return the processes of servers that this program has started over stdio."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "stdio" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


STORIES: list[Story] = [
    tools_are_listed_and_called,
    an_image_is_a_content_part,
    structured_content_is_json,
    an_error_of_the_server_is_a_failed_call,
    progress_is_reported,
    a_question_is_answered_at_once,
    a_question_is_answered_later_in_another_conversation,
]
"""What holds over stdio and over HTTP."""
OF_PROGRAMS: list[Story] = [a_server_that_dies_in_mid_call_is_started_again]
"""What is about a program that is started here."""


@contextmanager
def over_http(program: str) -> Generator[str]:
    """Run the server over streamable HTTP; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environment = {**os.environ, "PORT": str(port)}
    with subprocess.Popen(
        ["node", program, "streamableHttp"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            anyio.run(listening, port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


async def listening(port: int) -> None:
    with anyio.fail_after(SECONDS):
        while True:
            try:
                async with await anyio.connect_tcp("127.0.0.1", port):
                    return
            except OSError:
                await anyio.sleep(0.1)


def tell(kind: str, made: Made, stories: Sequence[Story]) -> int:
    """Tell stories with a server; return how many failed."""
    failed = 0
    for story in stories:
        for backend in ("asyncio", "trio"):
            try:
                anyio.run(told, story, made, backend=backend)
                end = "holds"
            except BaseExceptionGroup as group:
                failed, end = failed + 1, f"FAILED: {group.exceptions[0]!r}"
            except Exception as error:
                failed, end = failed + 1, f"FAILED: {error!r}"
            print(f"{kind:6} {backend:8} {story.__name__.replace('_', ' ')}: {end}", flush=True)
    return failed


async def told(story: Story, made: Made) -> None:
    with anyio.fail_after(SECONDS):
        await story(made)
        while own_servers():  # noqa: ASYNC110 - nor that it has ended
            await anyio.sleep(0.05)


def main() -> int:
    """Install the server, and tell the stories; where node is absent, say so."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        print("skipped: the server runs under node, which is not installed")
        return 0
    with tempfile.TemporaryDirectory(prefix="agui-npm-") as folder:
        options = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder]
        subprocess.run(["npm", "install", *options, f"{PACKAGE}@{VERSION}"], check=True)
        program = str(Path(folder, "node_modules", PACKAGE, "dist", "index.js"))
        failed = tell("stdio", StdioServerParameters(command="node", args=[program, "stdio"]), [*STORIES, *OF_PROGRAMS])
        with over_http(program) as url:
            return int(failed + tell("http", url, STORIES) > 0)


if __name__ == "__main__":
    sys.exit(main())
