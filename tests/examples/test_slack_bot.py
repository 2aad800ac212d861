"""The bot of examples/slack_bot.py, with slack-bolt, on a stand-in for Slack that knows nothing of the bot."""

from __future__ import annotations

import os
import runpy
import socket
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from ag_ui.core import RunAgentInput, RunErrorEvent

from agui_client.testing import Gate, ScriptedAgent, Step, interrupt, serve, text, tool_call, turn
from support.programs import STRICT, Program
from support.waiting import until_sync

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")
pytest.importorskip("aiohttp", reason="needs the extra fast: pip install 'agui-client[fast]'")
pytest.importorskip("slack_bolt", reason="needs slack-bolt: pip install slack-bolt")
from support.fake_slack import SECRET, TOKEN, FakeSlack, People

_PROGRAM = Path(__file__).parents[2] / "examples" / "slack_bot.py"
_PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
_BUY = tool_call("buy_tickets", {"route": "B1", "count": 2}, tool_call_id="call-1")


_until = partial(until_sync, seconds=30)


@dataclass
class Workspace:
    """A stand-in for Slack, an agent, and bots between them that share a database."""

    slack: FakeSlack
    environment: dict[str, str]
    exits: ExitStack = field(default_factory=ExitStack)
    bots: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def bot(self, edit_seconds: float = 0.02) -> People:
        """Start a bot in this process; each call makes another app, with the same database."""
        from slack_bolt.adapter.asgi.async_handler import AsyncSlackRequestHandler

        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            names = runpy.run_path(str(_PROGRAM))
        names["edit"].__globals__["EDIT_SECONDS"] = edit_seconds
        self.bots.append(names)
        self.exits.enter_context(names["store"])
        handler: Any = AsyncSlackRequestHandler(names["app"])
        server = self.exits.enter_context(serve(handler))
        return People(f"{server.url}slack/events")

    @contextmanager
    def process(self) -> Generator[tuple[People, Program]]:
        """Run the program as it stands, until the block is left, which kills it."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environment = {**os.environ, **self.environment, "PORT": str(port)}
        with Program(str(_PROGRAM), flags=STRICT, env=environment) as program:
            url = f"http://127.0.0.1:{port}/slack/events"

            def listens() -> bool:
                assert program.poll() is None, program.communicate()
                with suppress(httpx.TransportError):
                    httpx.get(url, trust_env=False)
                    return True
                return False

            _until(listens)
            yield People(url), program


@contextmanager
def _workspace(agent: ScriptedAgent, folder: Path) -> Generator[Workspace]:
    slack = FakeSlack()
    with serve(slack.app) as api, serve(agent) as served, ExitStack() as exits:
        addresses = {"SLACK_API_URL": f"{api.url}api/", "AGENT_URL": served.url}
        secrets = {"SLACK_BOT_TOKEN": TOKEN, "SLACK_SIGNING_SECRET": SECRET}
        environment = {**addresses, **secrets, "DATABASE_URL": f"sqlite:///{folder / 'slack.db'}"}
        yield Workspace(slack, environment, exits)


def _contents(input: RunAgentInput) -> list[list[dict[str, Any]]]:
    """Return the parts of each message of a person."""
    return [each.model_dump()["content"] for each in input.messages if each.role == "user"]


def _said(input: RunAgentInput) -> list[str]:
    return [parts[0]["text"] for parts in _contents(input)]


def test_a_message_grows_while_the_answer_arrives_and_calls_nobody(tmp_path: Path) -> None:
    gate = Gate()
    agent = ScriptedAgent(turn(text("One <!channel>", message_id="a"), gate, text("two & three.", message_id="b")))
    with _workspace(agent, tmp_path) as workspace:
        workspace.bot().write("Count &amp; wait", "1.1")
        _until(lambda: workspace.slack.texts("1.1") == ["One &lt;!channel&gt;"])
        gate.open()
        _until(lambda: workspace.slack.texts("1.1") == ["One &lt;!channel&gt;\n\ntwo &amp; three."])
        assert [method for method, _ in workspace.slack.calls].count("chat.postMessage") == 1
        assert _said(agent.inputs[0]) == ["Count & wait"]


def test_edits_of_all_threads_together_keep_the_pace(tmp_path: Path) -> None:
    agent = ScriptedAgent(turn(text("word " * 300, delay=0.002)))
    with _workspace(agent, tmp_path) as workspace:
        people, began = workspace.bot(edit_seconds=0.3), time.monotonic()
        for root in ("1.1", "2.1"):
            people.write("Talk", root)
        whole = ("word " * 300).strip()
        _until(lambda: workspace.slack.texts("1.1") == workspace.slack.texts("2.1") == [whole])
        edits = [method for method, _ in workspace.slack.calls].count("chat.update")
        assert 3 <= edits <= 1 + (time.monotonic() - began) / 0.3


def test_an_edit_that_slack_refuses_as_too_early_is_made_again(tmp_path: Path) -> None:
    with _workspace(ScriptedAgent(turn(text("Done.", chunk=9))), tmp_path) as workspace:
        workspace.slack.refusals = 2
        workspace.bot().write("Hi", "1.1")
        _until(lambda: workspace.slack.texts("1.1") == ["Done."])
        assert workspace.slack.refusals == 0


def test_a_long_answer_is_several_messages_and_nothing_is_lost(tmp_path: Path) -> None:
    answer = "".join("x" * (number % 11) + "&<" for number in range(3000))  # cut at each letter of `&amp;`
    with _workspace(ScriptedAgent(turn(text(answer, chunk=4000))), tmp_path) as workspace:
        workspace.bot().write("Count", "1.1")
        _until(lambda: "".join(map(unescape, workspace.slack.texts("1.1"))) == answer)
        assert len(workspace.slack.texts("1.1")) == 14


def test_each_thread_is_a_conversation_and_a_message_that_comes_again_is_answered_once(tmp_path: Path) -> None:
    async def count(input: RunAgentInput) -> AsyncIterator[Step]:
        yield turn(text(f"{len(input.messages)} messages", message_id=f"answer-{len(input.messages)}"))

    agent = ScriptedAgent(count)
    with _workspace(agent, tmp_path) as workspace:
        people, other = workspace.bot(), workspace.bot()
        people.send({"type": "message", "channel_type": "channel", "channel": "C1", "text": "no mention", "ts": "4.1"})
        people.write("One", "1.1")
        _until(lambda: workspace.slack.texts("1.1") == ["1 messages"])
        other.write("One", "1.1", again=True)
        other.write("Two", "1.5", root="1.1")
        people.send({"type": "message", "channel_type": "im", "channel": "D1", "text": "Hi", "ts": "3.1"})
        _until(lambda: workspace.slack.texts("1.1") == ["1 messages", "3 messages"])
        _until(lambda: workspace.slack.texts("3.1") == ["1 messages"])
        assert sorted(map(_said, agent.inputs)) == [["Hi"], ["One"], ["One", "Two"]]
        assert workspace.slack.texts("4.1") == []


def test_an_approval_by_button_counts_once_in_all_processes_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = Gate()
    agent = ScriptedAgent(turn(text("I can buy two."), _BUY), turn(gate, text("Bought.", message_id="b")))
    with _workspace(agent, tmp_path) as workspace:
        people, other = workspace.bot(), workspace.bot()
        people.write("Buy", "1.1")
        _until(lambda: workspace.slack.questions("1.1"))
        [question] = workspace.slack.questions("1.1")
        assert question["text"] == 'May the agent call buy_tickets with {"route": "B1", "count": 2}?'
        people.press("Approve", question, user="UANN")
        other.press("Approve", question, user="UBOB")  # while the first one is carried out
        people.press("Deny", question, user="UCAT")
        _until(lambda: len(agent.inputs) == 2)
        gate.open()
        _until(lambda: len(workspace.slack.refused()) == 2)
        assert workspace.slack.refused() == ["This question is not open any more."] * 2
        first, decided, last = workspace.slack.texts("1.1")
        assert (first, last) == ("I can buy two.", "Bought.")
        assert decided.partition("\n")[0] == question["text"]
        assert decided.partition("\n")[2] in {"Approve: <@UANN>", "Approve: <@UBOB>", "Deny: <@UCAT>"}
        assert workspace.slack.questions("1.1") == []
        assert capsys.readouterr().out.count("--- bought") == int("Approve" in decided)
        assert len(agent.inputs) == 2


def test_questions_of_the_agent_are_answered_together_and_stay_open_until_it_has_the_answer(tmp_path: Path) -> None:
    questions = [interrupt(words, interrupt_id=words).interrupts[0] for words in ("Ferry?", "Lunch?")]
    asking = interrupt("").model_copy(update={"interrupts": questions})
    agent = ScriptedAgent(
        turn(text("Two questions."), outcome=asking),
        turn(text("Hm", message_id="h"), RunErrorEvent(message="overloaded")),
        turn(text("Enjoy.", message_id="e")),
    )
    with _workspace(agent, tmp_path) as workspace:
        people = workspace.bot()
        people.write("Plan", "1.1")
        _until(lambda: workspace.slack.questions("1.1"))
        [question] = workspace.slack.questions("1.1")
        assert question["text"] == "Ferry?\nLunch?"
        people.press("Deny", question)
        _until(lambda: ":warning:" in workspace.slack.texts("1.1")[-1])
        assert "overloaded" in workspace.slack.texts("1.1")[-1]
        assert workspace.slack.questions("1.1") == [question]
        people.press("Approve", question)
        _until(lambda: not workspace.slack.questions("1.1"))
        assert workspace.slack.texts("1.1")[-1] == "Enjoy."
        answers = [[(each.interrupt_id, each.status) for each in input.resume or ()] for input in agent.inputs]
        assert answers[2] == [("Ferry?", "resolved"), ("Lunch?", "resolved")]


@pytest.mark.parametrize("question", [_BUY, interrupt("Buy two?")], ids=["call", "interrupt"])
def test_a_message_takes_back_the_question_before_it(
    question: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = ScriptedAgent(turn(text("I can buy two."), question), turn(text("Fine.", message_id="b")))
    with _workspace(agent, tmp_path) as workspace:
        people = workspace.bot()
        people.write("Buy", "1.1")
        _until(lambda: workspace.slack.questions("1.1"))
        people.write("No, wait", "1.5", root="1.1")
        _until(lambda: workspace.slack.texts("1.1")[-1] == "Fine.")
        people.press("Approve", workspace.slack.questions("1.1")[0])
        _until(lambda: workspace.slack.refused() == ["This question is not open any more."])
        assert (len(agent.inputs), capsys.readouterr().out) == (2, "")


def test_images_go_to_the_agent_and_the_token_to_slack_alone(tmp_path: Path) -> None:
    agent = ScriptedAgent(turn(text("A tower.")))
    elsewhere = FakeSlack(files={"x.png": _PNG})
    with _workspace(agent, tmp_path) as workspace, serve(elsewhere.app) as outside:
        root = workspace.environment["SLACK_API_URL"].removesuffix("api/")
        workspace.slack.files.update({"tower.png": _PNG, "page": b"<html>"})
        files = [
            {"name": "tower.png", "url_private": f"{root}files/tower.png", "size": len(_PNG)},
            {"name": "page", "url_private": f"{root}files/page", "size": 6},
            {"name": "film", "url_private": f"{root}files/film", "size": 10**9},
            {"name": "drive", "url_private": f"{outside.url}files/x.png", "is_external": True},
        ]
        workspace.bot().write("What is it?", "1.1", files=files)
        _until(lambda: workspace.slack.texts("1.1") == ["A tower."])
        [[words, image, *missing]] = _contents(agent.inputs[0])
        assert words["text"] == "What is it?"
        assert (b64decode(image["source"]["value"]), image["source"]["mime_type"]) == (_PNG, "image/png")
        names = ("page", "film", "drive")
        assert [each["text"] for each in missing] == [f"(The file {name} could not be read.)" for name in names]
        assert (workspace.slack.fetched, elsewhere.fetched) == ([f"Bearer {TOKEN}"] * 2, [])


def test_what_slack_has_not_signed_is_refused(tmp_path: Path) -> None:
    with _workspace(ScriptedAgent(turn(text("No."))), tmp_path) as workspace:
        assert workspace.bot().forge("Hi") == 401
        assert [method for method, _ in workspace.slack.calls if method != "auth.test"] == []


def test_a_question_of_a_process_that_was_killed_is_answered_in_the_next_one_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = ScriptedAgent(turn(text("I can buy two."), _BUY), turn(text("Bought.", message_id="b")))
    with _workspace(agent, tmp_path) as workspace:
        with workspace.process() as (people, first):
            people.write("Buy", "1.1")
            _until(lambda: workspace.slack.questions("1.1"))
        assert first.returncode == -9
        [question], people = workspace.slack.questions("1.1"), workspace.bot()
        for _ in range(2):
            people.press("Approve", question)
        _until(lambda: workspace.slack.refused() == ["This question is not open any more."])
        assert workspace.slack.texts("1.1")[-1] == "Bought."
        assert capsys.readouterr().out == "--- bought 2 for B1\n"
        assert [[each.role for each in input.messages][-1] for input in agent.inputs] == ["user", "tool"]


@pytest.mark.soak  # the next process waits for the lease of the one that was killed
def test_an_approval_of_a_process_that_is_killed_in_its_run_is_not_carried_out_again(tmp_path: Path) -> None:
    gate = Gate()
    agent = ScriptedAgent(turn(_BUY), turn(gate, text("Bought.", message_id="b")), turn(text("Yes.", message_id="c")))
    with _workspace(agent, tmp_path) as workspace:
        with workspace.process() as (people, first):
            people.write("Buy", "1.1")
            _until(lambda: workspace.slack.questions("1.1"))
            [question] = workspace.slack.questions("1.1")
            people.press("Approve", question)
            _until(lambda: len(agent.inputs) == 2)
            first.kill()
            assert first.stdout is not None
            assert first.stdout.read().count("--- bought") == 1
        gate.open()
        with workspace.process() as (people, second):
            people.press("Approve", question)
            _until(lambda: workspace.slack.refused() == ["This question is not open any more."])
            people.write("Have you bought them?", "1.5", root="1.1")
            _until(lambda: workspace.slack.texts("1.1")[-1] == "Yes.")
            second.kill()
            assert second.stdout is not None
            assert "--- bought" not in second.stdout.read()
        assert [each.role for each in agent.inputs[2].messages][:3] == ["user", "assistant", "tool"]
