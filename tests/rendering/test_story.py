"""One story of a run: terminal, notebook, inspector and documents say the same of what ran and who decided."""

# isinstance() makes a RunResult[Unknown] of a partial result.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    Event,
    Interrupt,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)
from rich.console import Console

from agui_client import (
    AgentRun,
    AGUIError,
    ApprovalRequest,
    Approve,
    ConversationSnapshot,
    Deny,
    People,
    Resolve,
    RunResult,
    tool,
)
from agui_client._core.tools.people import PeopleTime, person_asked
from agui_client._rendering.story import Speakers
from agui_client.inspector import inspector_page
from agui_client.inspector._summary import summary_of
from agui_client.notebook._content import bundle_of
from agui_client.recording import Recording, record
from agui_client.store import ThreadInfo
from agui_client.store._threads.documents import exported
from agui_client.teams import SequentialAgent
from agui_client.terminal._live_run import LiveView
from agui_client.terminal._plain_view import PlainView
from agui_client.terminal._watching import show_event
from agui_client.testing import ScriptedAgent, Step, interrupt, text, tool_call, tool_result, turn

pytestmark = pytest.mark.anyio

SCOUT = "scout-0123abcd.1"
"""The id of an invocation of a team's member, which says its name."""
SECRET = {"type": "object", "properties": {"seat": {"type": "string"}, "pin": {"format": "password"}}}


@dataclass
class Shown:
    """What each painter made of one run."""

    result: RunResult
    document: ConversationSnapshot
    recording: Recording
    terminal: str
    live_terminal: str

    def by(self, painter: str) -> str:
        """The text of a painter, its white space folded."""
        made: dict[str, Callable[[], str]] = {
            "terminal": lambda: self.terminal,
            "live terminal": lambda: self.live_terminal,
            "notebook": lambda: bundle_of(self.result)["text/plain"],
            "notebook html": lambda: untagged(bundle_of(self.result)["text/html"]),
            "inspector text": lambda: str(self.result.inspect()),
            "inspector without events": lambda: str(RunResult(**vars_of(self.result)).inspect()),
            "inspector page": lambda: untagged(inspector_page(self.recording).decode()),
            "document": lambda: bundle_of(self.document)["text/plain"],
            "exported thread": lambda: unescaped(exported(INFO, self.document, "md")),
        }
        return " ".join(made[painter]().split())


INFO = ThreadInfo("t", "a title", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), 0)
OF_RUNS = ["terminal", "notebook", "notebook html", "inspector text", "inspector without events", "inspector page"]
OF_CALLS = [*OF_RUNS, "live terminal", "document", "exported thread"]


def vars_of(result: RunResult) -> dict[str, Any]:
    return {name: getattr(result, name) for name in RunResult.__dataclass_fields__}


def untagged(html: str) -> str:
    plain = re.sub(r"<[^>]*>", " ", html.partition("</style>")[2]).replace("&quot;", '"').replace("\\u003e", ">")
    return plain.replace('\\"', '"')


def unescaped(markdown: str) -> str:
    return re.sub(r"\\([*_{}\[\]#|!~$`])", r"\1", markdown).replace("&gt;", ">")


@tool(approval="always")
def buy(count: int) -> str:
    """Buy tickets."""
    return f"{count} bought"


@tool(approval="always")
def wipe(disk: str) -> str:
    """Wipe a disk."""
    return disk


@tool
def look() -> str:
    """Look."""
    raise ValueError("no such table")


async def approve(request: ApprovalRequest) -> Approve | Deny:
    return Approve({"count": 2}) if request.name == "buy" else Deny("not that")


async def answer(asked: Interrupt) -> Resolve:
    return Resolve({"seat": "12A", "pin": "sesame", "password": "hunter2"})


WORDS: list[Event] = [
    SubagentStartedEvent(subagent_run_id=SCOUT, name="scout"),
    TextMessageStartEvent(message_id="m", role="assistant", subagent_run_id=SCOUT),
    TextMessageContentEvent(message_id="m", delta="I see land."),
    TextMessageEndEvent(message_id="m"),
    SubagentFinishedEvent(subagent_run_id=SCOUT),
]
SCRIPT = (
    turn(*WORDS, tool_call("buy", {"count": 4}), tool_call("wipe", {"disk": "sda"}), tool_call("look")),
    turn(text("Where do you sit?"), interrupt("Which seat?", response_schema=SECRET)),
    turn(text("Done."), result={"tickets": 2, "api_key": "sk-live"}),
)


async def follow(run: AgentRun, views: Sequence[PlainView | LiveView]) -> RunResult:
    async with run:
        for view in views:
            run.call.observers.watch_tools(view.execution)
        async for event in run:
            for view in views:
                show_event(event, run, view)
        return await run.result()


async def shown(script: Sequence[Step], path: Path, **options: Any) -> Shown:
    options = {"tools": [buy, wipe, look], "approve": approve, "answer": answer, **options}
    agent = ScriptedAgent(*script, observers=[record(path)], **options)
    notes, written = io.StringIO(), io.StringIO()
    plain = PlainView(answers=notes, notes=notes, verbose=True)
    live = LiveView(Console(file=written, force_terminal=True, width=200, color_system=None))
    result = await follow(agent.stream("Buy four"), [plain, live])
    plain.close(result)
    return Shown(result, agent.snapshot(), Recording.read(path), notes.getvalue(), written.getvalue())


@pytest.fixture
async def one(tmp_path: Path) -> Shown:
    return await shown(SCRIPT, tmp_path / "run.jsonl")


@pytest.mark.parametrize("painter", OF_CALLS)
async def test_every_painter_says_what_ran_what_was_asked_and_who_decided(one: Shown, painter: str) -> None:
    told = one.by(painter)
    assert re.search(r'buy\W+(.{0,60}\W)?\{ ?"count": 2 ?\}', told)
    assert 'changed by a person from {"count": 4}' in told
    assert "2 bought" in told
    assert "denied by a person" in told
    assert "not that" in told
    assert re.search(r"look.{0,400}failed", told)


@pytest.mark.parametrize("painter", [each for each in OF_CALLS if each != "live terminal"])
async def test_every_painter_names_the_author_of_the_words_of_a_subagent(one: Shown, painter: str) -> None:
    assert re.search(r"scout\W.*I see land\.", one.by(painter))


@pytest.mark.parametrize("painter", OF_RUNS)
async def test_every_painter_of_a_run_says_answers_result_and_the_time_without_people(one: Shown, painter: str) -> None:
    told = one.by(painter)
    assert re.search(r'Which seat\? \{"seat": "12A", .*?\}, answered by a person in [\d.]+ m?s', told)
    assert re.search(r'result: \{"tickets": 2', told)
    assert re.search(r"[\d.]+ m?s, [\d.]+ m?s without people", told)
    assert "success" in told or painter == "terminal"


@pytest.mark.parametrize("painter", OF_CALLS)
async def test_no_painter_shows_a_secret_of_an_answer_or_a_result(one: Shown, painter: str) -> None:
    told = one.by(painter)
    assert not re.search("hunter2|sk-live", told)
    # The rows of a recording have the answer as it was sent, with secrets redacted by their names.
    assert painter == "inspector page" or "sesame" not in told
    assert not re.search("hunter2|sesame", str(json.loads(one.result.to_json())["answered"]))


EDITED = {"approved": True, "editedArgs": {"count": 2}}
BUY_TWO = {"name": "buy", "args": {"count": 2}}
OWN = (
    turn(
        tool_call("buy", {"count": 4}, tool_call_id="own"),
        RunFinishedInterruptOutcome(
            interrupts=[Interrupt(id="i", reason="tool_call", message="Buy?", tool_call_id="own")]
        ),
    ),
    turn(tool_result("2 bought", tool_call_id="own"), text("Done.")),
)


@pytest.mark.parametrize("payload", [EDITED, {"decisions": [{"type": "edit", "edited_action": BUY_TWO}]}])
@pytest.mark.parametrize("painter", [*OF_RUNS, "live terminal"])
async def test_a_decision_about_a_call_of_the_agents_own_is_told_as_one_here(
    painter: str, payload: Any, tmp_path: Path
) -> None:
    told = (await shown(OWN, tmp_path / "run.jsonl", tools=[], answer=saying(Resolve(payload)))).by(painter)
    assert re.search(r'buy\W+(.{0,60}\W)?\{ ?"count": 2 ?\}', told)
    assert 'changed by a person from {"count": 4}' in told


async def test_a_run_that_is_cut_is_told_as_failed_by_notebook_and_inspector(tmp_path: Path) -> None:
    begun = RunStartedEvent(thread_id="t", run_id="r")
    agent = ScriptedAgent([begun, text("Half")], thread_id="t", observers=[record(tmp_path / "run.jsonl")])
    with pytest.raises(AGUIError) as failed:
        await agent.run_agent("Hi", run_id="r")
    assert isinstance(failed.value.partial, RunResult)
    sentence = f"failed: {type(failed.value).__name__}: "
    assert sentence in bundle_of(failed.value.partial)["text/plain"]
    assert str(failed.value.partial.inspect()).startswith(sentence)
    assert summary_of(Recording.read(tmp_path / "run.jsonl")).requests[0].ending.startswith(sentence)


def saying(given: Any) -> Callable[[object], Any]:
    """A function that gives one answer to all."""
    return lambda _: given


def failing(_: ApprovalRequest) -> bool:
    raise LookupError("who is that?")


async def hesitating(_: ApprovalRequest) -> bool:
    await anyio.sleep_forever()
    return True


async def thinking(_: ApprovalRequest) -> bool:
    await anyio.sleep(0.01)
    return True


def decided(result: RunResult) -> str:
    (execution,) = result.tool_executions
    return str(execution.decision)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"approve": saying(True)}, "approved by a person"),
        ({"approve": saying(Approve({"count": 4}))}, "approved by a person"),
        ({"approve": saying(Approve({"count": "x"}))}, "changed by a person"),
        ({"approve": failing}, "denied by nobody"),
        ({"approve": hesitating, "people": People(wait=0.01)}, "denied by nobody"),
        ({"tools": [tool(approval=saying(False))(buy.function)]}, "approved by a rule"),
        ({"tools": [tool(buy.function)]}, "None"),
    ],
)
async def test_an_execution_says_who_decided_about_it(options: dict[str, Any], said: str) -> None:
    options = {"tools": [buy], **options}
    agent = ScriptedAgent(turn(tool_call("buy", {"count": 4})), turn(text("Done.")), **options)
    assert decided(await agent.run_agent("Hi")) == said


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_team_says_of_the_tools_of_its_members_what_ran_and_who_decided(depth: int) -> None:
    @tool(approval="always")
    def buy(count: int) -> str:
        """Buy tickets."""
        return f"{count} bought"

    member: Any = ScriptedAgent(turn(tool_call("buy", {"count": 4})), turn(text("Done.")), tools=[buy])
    for _ in range(depth):
        member = SequentialAgent(member, approve=lambda asked: Approve({"count": 2}))
    with anyio.fail_after(5):
        result = await member.run_agent("Buy tickets.")
    [call] = [call for message in result.new_messages for call in getattr(message, "tool_calls", None) or ()]
    [done] = result.tool_executions
    assert (done.tool_call_id, done.arguments, call.function.arguments) == (call.id, {"count": 2}, '{"count": 4}')
    assert done.message in result.messages
    for shown in (bundle_of(result)["text/plain"], str(result.inspect())):
        assert 'changed by a person from {"count": 4}' in shown
        assert re.search(r'buy\W+"count": 2\}', shown)


async def test_arguments_that_come_with_the_call_are_a_change_of_a_person() -> None:
    agent = ScriptedAgent(turn(tool_call("buy", {"count": 4}, tool_call_id="c")), turn(text("Done.")), tools=[buy])
    await agent.run_agent("Hi")
    again = await agent.run_agent(tool_results={"c": Approve({"count": 2})})
    assert decided(again) == "changed by a person"
    assert [each.decision.arguments for each in agent.snapshot().tool_calls if each.decision] == [{"count": 2}]


@pytest.mark.parametrize("is_inside", [False, True])
def test_the_time_of_a_call_says_for_how_long_people_were_asked_also_those_of_a_member(is_inside: bool) -> None:
    agent = ScriptedAgent(turn(tool_call("buy", {"count": 4})), turn(text("Done.")), tools=[buy], approve=thinking)
    timings = (SequentialAgent(agent) if is_inside else agent).run_agent_sync("Hi").timings
    assert timings.total is not None
    assert 0.01 <= timings.people < timings.total


def test_time_in_which_several_people_are_asked_is_counted_once_and_in_the_call_around(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = count()
    monkeypatch.setattr("agui_client._core.tools.people.perf_counter", lambda: float(next(ticks)))
    around = PeopleTime()
    inner = PeopleTime(around)
    with inner.counted(), person_asked(), person_asked():
        pass
    assert inner.seconds > 0
    assert around.seconds > 0
    before = inner.seconds
    with person_asked():
        pass
    assert inner.seconds == before


@pytest.mark.requirement("SET-15")
def test_the_name_of_a_subagent_has_few_of_the_names_around_it_and_its_own_whole() -> None:
    speakers, names = Speakers(), list[str]()
    for at in range(12):
        around = f"id{at - 1}" if at else None
        started = SubagentStartedEvent(subagent_run_id=f"id{at}", name=f"n{at}", parent_subagent_run_id=around)
        names.append(speakers.begin(started))
    assert names[:2] == ["n0", "n0 > n1"]
    assert names[8] == "n0 > n1 > n2 > n3 > n4 > n5 > n6 > n7 > n8"
    assert names[11] == speakers.name("id11") == "n0 > … > n5 > n6 > n7 > n8 > n9 > n10 > n11"
    long = SubagentStartedEvent(subagent_run_id="long", name="x" * 1_000)
    inner = SubagentStartedEvent(subagent_run_id="inner", name="y" * 1_000, parent_subagent_run_id="long")
    assert [speakers.begin(long), speakers.begin(inner)] == ["x" * 1_000, f"{'x' * 80}… > {'y' * 1_000}"]
