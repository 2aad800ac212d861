"""`agui chat --threads` and `agui threads`: conversations in a file."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from ag_ui.core import RunAgentInput

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")

from agui_client.store import Store
from agui_client.testing import ScriptedAgent, Server, Step, serve, text, tool_call, turn
from cli.conftest import Agui, Start


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    async def echo(input: RunAgentInput) -> AsyncIterator[Step]:
        yield turn(text(f"You said {input.messages[-1].content} ({len(input.messages)})."))

    with serve(ScriptedAgent(echo)) as server:
        yield server


def test_a_chat_goes_on_in_another_process(agui: Agui, server: Server, tmp_path: Path) -> None:
    kept = str(tmp_path / "chats.db")
    first = agui("chat", "--threads", kept, "--thread-id", "t", server.url, stdin="Hello\n")
    second = agui("chat", "--threads", kept, "--thread-id", "t", server.url, stdin="Again\n/new\n")
    assert (first.stdout, second.stdout) == ("You said Hello (1).\n", "You said Again (3).\n")
    assert first.stderr == "thread t is new; --thread-id t continues it another time\n"
    assert "thread t continues" in second.stderr
    assert "/quit, and begin another chat" in second.stderr
    assert agui("chat", "--threads", kept, server.url, "--owner", "ann", stdin="Mine\n").returncode == 0
    listed = agui("threads", "list", kept)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["t"]
    assert listed.stdout.endswith("    4  Hello\n")
    (line,) = agui("threads", "list", kept, "--json", "--owner", "ann").stdout.splitlines()
    assert (json.loads(line)["title"], json.loads(line)["messages"]) == ("Mine", 2)
    none = agui("threads", "list", kept, "--owner", "bob")
    assert (none.returncode, none.stdout) == (0, "")
    assert none.stderr == "agui: there are no threads of bob; --owner NAME lists those of another owner\n"


def test_threads_are_shown_forked_exported_and_deleted(agui: Agui, server: Server, tmp_path: Path) -> None:
    kept = str(tmp_path / "chats.db")
    agui("chat", "--threads", kept, "--thread-id", "t", server.url, stdin="Hello\nAgain\n")
    assert agui("threads", "show", kept, "t").stdout.startswith("# Hello\n\n**User**\n\nHello\n")
    exported = json.loads(agui("threads", "export", kept, "t").stdout)
    at = exported["conversation"]["messages"][1]["id"]
    assert agui("threads", "fork", kept, "t", "--at", at, "--new-id", "f").stdout == "f\n"
    assert agui("threads", "export", kept, "f", "--format", "jsonl").stdout.count("\n") == 3
    page = agui("threads", "export", kept, "t", "--format", "html")
    assert (page.returncode, page.stdout.count("You said"), "<title>Hello</title>" in page.stdout) == (0, 2, True)
    assert agui("threads", "export", kept, "none", "--format", "html").returncode == 2
    assert agui("threads", "delete", kept, "t", "f").returncode == 0
    gone = agui("threads", "delete", kept, "t")
    assert (gone.returncode, gone.stderr) == (2, "agui: there is no thread t\n")
    missing = agui("threads", "show", kept, "t")
    assert (missing.returncode, "there is no thread 't'" in missing.stderr) == (2, True)
    assert agui("threads", "list", str(tmp_path / "missing.db")).returncode == 2


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_a_chat_whose_terminal_was_closed_leaves_its_thread(start: Start, server: Server, tmp_path: Path) -> None:
    kept = tmp_path / "chats.db"
    chat = start("chat", "--threads", str(kept), "--thread-id", "t", server.url, stdin=subprocess.PIPE)
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write("Hello\n")
    chat.stdin.flush()
    assert chat.stdout.readline() == "You said Hello (1).\n"
    chat.send_signal(signal.SIGHUP)
    assert chat.wait(30) == 129
    with Store(f"sqlite:///{kept}") as store, store.threads.open("t", ScriptedAgent(turn()), wait=0) as agent:
        assert [message.content for message in agent.messages] == ["Hello", "You said Hello (1)."]


def test_a_tool_that_was_stopped_in_the_middle_is_not_asked_about(agui: Agui, tmp_path: Path) -> None:
    kept, tools = tmp_path / "chats.db", tmp_path / "tools.py"
    tools.write_text(
        "from agui_client import tool\n@tool(approval='always')\ndef pay() -> str:\n    'Pays.'\n    return 'paid'\n"
    )
    producer = ScriptedAgent(turn(tool_call("pay", tool_call_id="c1")))
    with Store(f"sqlite:///{kept}") as store, store.threads.open("t", producer, owner="ann") as agent:
        from agui_client import tool

        @tool
        def pay() -> str:
            """Pays."""
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            agent.run_agent_sync("Pay", tools=[pay])

    async def echo(input: RunAgentInput) -> AsyncIterator[Step]:
        yield turn(text(str([each.content for each in input.messages if each.role == "tool"])))

    with serve(ScriptedAgent(echo)) as server:
        more = ("--tools", f"{tools}:pay", "--thread-id", "t", "--owner", "ann")
        done = agui("chat", "--threads", str(kept), server.url, *more, stdin="And?\n")
    assert (done.returncode, "may have had its effect or not" in done.stdout) == (0, True)
