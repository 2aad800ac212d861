"""What a public verb costs is in proportion to the messages, calls, rows, members and so on that it is given.

The streams that it receives are in test_proportion.py, files in tests/recording/test_proportion_of_files.py, turns of
stored threads in tests/store/threads/test_growth.py, and calls of teams in tests/teams/test_costs.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from ag_ui.core import Context, Event, RunAgentInput, TextMessageContentEvent, UserMessage

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")
from agui_client import (
    AbstractAgent,
    Approve,
    FunctionAgent,
    Resolve,
    RunObserver,
    Subscriber,
    ToolLimits,
    tool,
    validate,
)
from agui_client.a2ui import Surfaces, change_surface, show_surface, surface_result
from agui_client.asgi import served_run
from agui_client.batch import RowResult, compare, run_many, table, write_table
from agui_client.doctor import Diagnosis, Evidence, Finding, as_html, as_junit
from agui_client.evaluation import Scenario, evaluate_sync, read_scenarios, recorded_scenarios, reproductions
from agui_client.inspector import compare as compare_recordings
from agui_client.recording import Recording, record
from agui_client.store import MemoryStore, Store
from agui_client.teams import HandoffAgent, LoopAgent, Member, ParallelAgent, RouterAgent, SequentialAgent, TeamLimits
from agui_client.testing import ScriptedAgent, assert_conforms, interrupt, text, tool_call, turn
from support.bodies import memory_agent
from support.proportion import GROWING, body, lines_of, other, stream

Work: TypeAlias = Callable[[], object]
Verb: TypeAlias = Callable[[int, Path], Work]
"""Prepares a verb for a number of things, in an empty folder; returns what calls it."""
_NAME = "item"


def _yes() -> ScriptedAgent:
    return ScriptedAgent(turn(text("Yes.")))


def _user(at: int) -> UserMessage:
    return UserMessage(id=f"u{at}", content="Hi")


def _long(n: int) -> ScriptedAgent:
    """An agent whose conversation has some messages."""
    agent = _yes()
    agent.set_messages([_user(at) for at in range(n)])
    return agent


def _turns(agent: AbstractAgent[Any], n: int) -> None:
    for at in range(n):
        agent.run_agent_sync(f"{at}")


# --- conversations


def messages_added_one_by_one(n: int, _: Path) -> Work:
    agent, given = _yes(), [_user(at) for at in range(n)]

    def add() -> None:
        for each in given:
            agent.add_message(each)

    return add


def messages_set(n: int, _: Path) -> Work:
    agent, given = _yes(), [_user(at) for at in range(n)]
    return lambda: agent.set_messages(given)


def messages_cloned(n: int, _: Path) -> Work:
    return _long(n).clone


def messages_rewound(n: int, _: Path) -> Work:
    agent = _long(n)
    return lambda: agent.rewind("u0")


def messages_sent(n: int, _: Path) -> Work:
    agent = _long(n)
    return lambda: agent.run_agent_sync("Hi")


def turns_of_an_agent(n: int, _: Path) -> Work:
    agent = _yes()
    return lambda: _turns(agent, n)


def edits_of_the_state(n: int, _: Path) -> Work:
    agent: ScriptedAgent[Any] = _yes()
    agent.set_state({f"k{at}": at for at in range(n)})

    def edit() -> None:
        with agent.edit_state() as state:
            for at in range(n):
                state[f"k{at}"] = -at

    return edit


def watchers_of_the_state(n: int, _: Path) -> Work:
    agent: ScriptedAgent[Any] = _yes()
    agent.set_state({f"k{at}": at for at in range(n)})
    seen = list[Any]()
    for at in range(n):
        agent.on_state(f"/k{at}")(seen.append)
    return lambda: agent.set_state({f"k{at}": -at for at in range(n)})


# --- runs


def tools_offered_and_called(n: int, _: Path) -> Work:
    def made(at: int) -> Any:
        return tool(lambda: "found", name=f"look{at}", description="Look.")

    calls = (tool_call(f"look{at}", {}, tool_call_id=f"c{at}") for at in range(n))
    agent = ScriptedAgent(turn(*calls), turn(text("Done.")), tools=[made(at) for at in range(n)])
    return lambda: agent.run_agent_sync("Hi")


@tool(approval="always")
def buy() -> str:
    """Buy."""
    return "bought"


@tool
def look(at: int) -> str:
    """Look."""
    return f"found {at}"


def calls_approved(n: int, _: Path) -> Work:
    calls = (tool_call("buy", {}, tool_call_id=f"c{at}") for at in range(n))
    agent = ScriptedAgent(turn(*calls), turn(text("Done.")), tools=[buy])
    agent.set_handlers(approve=lambda request: Approve())
    return lambda: agent.run_agent_sync("Hi")


def rounds_of_calls(n: int, _: Path) -> Work:
    rounds = (turn(tool_call("look", {"at": at}, tool_call_id=f"c{at}")) for at in range(n))
    agent = ScriptedAgent(*rounds, turn(text("Done.")), tools=[look], tool_limits=ToolLimits(rounds=n + 1))
    return lambda: agent.run_agent_sync("Hi")


def calls_of_an_agent_as_a_tool(n: int, _: Path) -> Work:
    calls = (tool_call("ask", {"prompt": "Hi"}, tool_call_id=f"c{at}") for at in range(n))
    agent = ScriptedAgent(turn(*calls), turn(text("Done.")), tools=[_yes().as_tool("ask", "Ask.")])
    return lambda: agent.run_agent_sync("Hi")


def results_given(n: int, _: Path) -> Work:
    calls = (tool_call("look", {}, tool_call_id=f"c{at}") for at in range(n))
    agent = ScriptedAgent(turn(*calls), turn(text("Done.")))
    agent.run_agent_sync("Hi")
    return lambda: agent.run_agent_sync(tool_results={f"c{at}": "found" for at in range(n)})


def interrupts_answered(n: int, _: Path) -> Work:
    asked = interrupt("Proceed?")
    made = [asked.interrupts[0].model_copy(update={"id": f"i{at}"}) for at in range(n)]
    agent = ScriptedAgent(turn(asked.model_copy(update={"interrupts": made})), turn(text("Done.")))

    def both() -> None:
        agent.run_agent_sync("Hi")
        agent.run_agent_sync(resume={f"i{at}": Resolve("yes") for at in range(n)})

    return both


def context_given(n: int, _: Path) -> Work:
    agent, given = _yes(), [Context(description=f"{at}", value="x") for at in range(n)]
    return lambda: agent.run_agent_sync("Hi", context=given)


def prompts_that_steer(n: int, _: Path) -> Work:
    agent = _yes()

    def steer() -> None:
        with agent.stream_sync("Hi") as run:
            for at, _ in enumerate(run):
                if not at:
                    for number in range(n):
                        agent.steer(f"{number}")

    return steer


def subscribers(n: int, _: Path) -> Work:
    agent = _yes()
    for _at in range(n):
        agent.subscribe(Subscriber())
    return lambda: agent.run_agent_sync("Hi")


def functions_for_events(n: int, _: Path) -> Work:
    agent, seen = _yes(), list[Any]()
    for _at in range(n):
        agent.on(TextMessageContentEvent)(seen.append)
    return lambda: agent.run_agent_sync("Hi")


def middleware(n: int, _: Path) -> Work:
    async def pass_on(input: RunAgentInput, following: Any) -> AsyncIterator[Event]:
        async for event in following(input):
            yield event

    agent = _yes().use(*[pass_on] * n)
    return lambda: agent.run_agent_sync("Hi")


def observers(n: int, _: Path) -> Work:
    agent = _yes().use(*(RunObserver() for _ in range(n)))
    return lambda: agent.run_agent_sync("Hi")


def _received(n: int) -> bytes:
    return body(stream(GROWING["calls and results"], n, other))


def events_replayed(n: int, _: Path) -> Work:
    agent = memory_agent(_received(n), connect_url="connect")
    return agent.connect_agent_sync


def events_observed(n: int, _: Path) -> Work:
    agent, seen = memory_agent(_received(n)), list[Any]()

    async def observe() -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        agent.observe("Hi").subscribe(seen.append, done.set_exception, lambda: done.set_result(None))
        await done

    return lambda: asyncio.run(observe())


def _reading(view: Callable[[Any], AsyncIterator[Any]]) -> Verb:
    def prepare(n: int, _: Path) -> Work:
        agent = memory_agent(_received(n))

        async def read() -> None:
            async with agent.stream("Hi") as run:
                async for _ in view(run):
                    pass

        return lambda: asyncio.run(read())

    return prepare


def result_shown(n: int, folder: Path) -> Work:
    result = memory_agent(_received(n)).use(record(folder / "run.jsonl")).run_agent_sync("Hi")
    return lambda: (repr(result), result.to_json(), result.inspect().save(folder / "page.html"))


def events_validated(n: int, _: Path) -> Work:
    def check() -> None:
        assert validate(_received(n)) == []
        assert_conforms(_received(n))

    return check


def messages_served(n: int, _: Path) -> Work:
    rest: Any = {"state": None, "tools": [], "context": [], "forwarded_props": None}
    input = RunAgentInput(thread_id="t", run_id="r", messages=[_user(at) for at in range(n)], **rest)

    async def serve() -> None:
        async with served_run(_yes(), input) as run:
            async for _ in run.sse():
                pass

    return lambda: asyncio.run(serve())


# --- stores


def _stored(fill: Callable[[Store, int], object], use: Callable[[Store, int], object]) -> Verb:
    """Fill a store; use it in another process, as it were, whose threads begin as lines are counted."""

    def prepare(n: int, _: Path) -> Work:
        place = MemoryStore()
        with Store(place) as store:
            fill(store, n)

        def work() -> None:
            with Store(place) as again:
                use(again, n)

        return work

    return prepare


def _save_long(store: Store, n: int) -> None:
    with store.threads.open("t", _long(n)) as agent:
        agent.run_agent_sync("Hi")


def _save_many(store: Store, n: int) -> None:
    for at in range(n):
        with store.threads.open(f"t{at}", _yes()) as agent:
            agent.add_message(_user(at))


def _save_branches(store: Store, n: int) -> None:
    for _ in range(n):
        with store.threads.open("t", _long(1)) as agent:
            agent.run_agent_sync("Hi")
        store.threads.rewind("t", "u0").result()


def _read_pages(store: Store, n: int) -> None:
    page = store.threads.messages("t", limit=4).result()
    count = len(page.messages)
    while page.before is not None:
        page = store.threads.messages("t", limit=4, before=page.before).result()
        count += len(page.messages)
    assert count == n + 2


def _move(store: Store, n: int) -> None:
    threads = store.threads
    for form in ("json", "jsonl", "md"):
        document = threads.export("t", form).result()
        assert form == "md" or threads.import_(document, thread_id=form).result()


def _list(store: Store, n: int) -> None:
    assert len(store.threads.list(limit=n).result()) == n


def _kept(carry_out: Callable[[Store, int], Awaitable[None]]) -> Verb:
    def prepare(n: int, _: Path) -> Work:
        async def work() -> None:
            async with Store() as store:
                await carry_out(store, n)

        return lambda: asyncio.run(work())

    return prepare


async def _runs(store: Store, n: int) -> None:
    for at in range(n):
        await store.runs.start(_yes(), "Hi", run_id=f"r{at}", thread_id=f"t{at}")
        assert [each async for each in store.runs.follow(f"r{at}")]
        assert (await store.runs.info(f"r{at}")).run_id == f"r{at}"
    assert len(await store.runs.list()) == n
    assert await store.runs.delete(everybody=True) == n


async def _events(store: Store, n: int) -> None:
    await store.runs.start(memory_agent(_received(n)), "Hi", run_id="r")
    assert len([each async for each in store.runs.follow("r")]) > n


async def _followers(store: Store, n: int) -> None:
    await store.runs.start(_yes(), "Hi", run_id="r")

    async def follow() -> None:
        assert [each async for each in store.runs.follow("r")]

    await asyncio.gather(*(follow() for _ in range(n)))


async def _answers(store: Store, n: int) -> None:
    for at in range(n):
        await store.runs.start(ScriptedAgent(turn(interrupt("?")), turn(text("Done."))), "Hi", run_id=f"r{at}")
        assert [each async for each in store.runs.follow(f"r{at}")]
        answered = await store.runs.answer(f"r{at}", {"interrupt-1": Approve()})
        assert [each async for each in store.runs.follow(answered.run_id)]


# --- batches and evaluations


def _rows(n: int) -> list[RowResult]:
    return list(run_many(_yes(), [{"id": f"{at}", "prompt": f"{at}"} for at in range(n)], key="id"))


def rows_asked(n: int, folder: Path) -> Work:
    rows = [{"id": f"{at}", "prompt": f"{at}"} for at in range(n)]
    return lambda: list(run_many(_yes(), rows, key="id", journal=folder / "journal.jsonl"))


def rows_compared_and_written(n: int, folder: Path) -> Work:
    before, after = _rows(n), _rows(n)

    def write() -> None:
        assert str(compare(before, after))
        assert len(table(after)) == n
        for ending in ("csv", "jsonl"):
            write_table(after, folder / f"table.{ending}")

    return write


def scenarios_held_and_compared(n: int, folder: Path) -> Work:
    entries = [{"name": f"s{at}", "says": ["Hi"], "checks": [{"said": "Yes"}]} for at in range(n)]
    (folder / "scenarios.json").write_text(json.dumps({"scenarios": entries}), "utf-8")

    def hold() -> None:
        found = evaluate_sync(_yes(), read_scenarios(folder / "scenarios.json"))
        assert str(found.compare(found))

    return hold


def failures_kept_and_replayed(n: int, folder: Path) -> Work:
    scenarios = [Scenario(name=f"s{at}", says=["Hi"], checks=[{"said": "No"}]) for at in range(n)]

    def keep() -> None:
        for number, each in enumerate(evaluate_sync(_yes(), scenarios).failures):
            each.save(folder / f"{number}.jsonl")
        assert [each.replay().failed for each in reproductions(folder)]

    return keep


def prompts_of_a_scenario(n: int, folder: Path) -> Work:
    scenario = Scenario(name="s", says=["Hi"] * n, checks=[{"said": "No"}])
    return lambda: evaluate_sync(_yes(), scenario)


def turns_recorded(n: int, folder: Path) -> Work:
    agent = _yes().use(record(folder / "turns.jsonl"))
    return lambda: _turns(agent, n)


def recorded_threads_compared_and_made_scenarios(n: int, folder: Path) -> Work:
    agent = _yes().use(record(folder / "threads.jsonl"))
    for at in range(n):
        agent.clone(thread_id=f"t{at}").run_agent_sync("Hi")
    recording = Recording.read(folder / "threads.jsonl")
    return lambda: (compare_recordings(recording, recording), recorded_scenarios(recording))


def findings_written(n: int, _: Path) -> Work:
    evidence = Evidence(sent="POST /", received="200")
    about: Any = {"severity": "error", "problem": "It is wrong.", "fix": "Mend it.", "evidence": evidence}
    findings = [Finding(rule=f"LIFE-{at}", probe="hello", **about) for at in range(n)]
    server: Any = {"url": "http://x/", "client": "1", "is_reachable": True, "is_complete": True}
    found = Diagnosis(findings=findings, profile=[], probes=[], requests=1, seconds=1.0, **server)
    return lambda: (str(found), as_html(found), as_junit(found))


# --- surfaces and teams


def components_shown_and_changed(n: int, _: Path) -> Work:
    names = [f"{_NAME}{at}" for at in range(n)]
    listed: list[Any] = [{"id": "root", "component": "Column", "children": names}]
    listed += [{"id": each, "component": "Text", "text": "Ferry"} for each in names]

    def show() -> None:
        shown = show_surface("s", listed)
        changes = [change_surface("s", components=[each]) for each in listed[1:]]
        assert surface_result(shown, *changes)

    return show


def surfaces_of_many_runs(n: int, _: Path) -> Work:
    listed: list[Any] = [{"id": "root", "component": "Text", "text": "Ferry"}]
    agent = ScriptedAgent(turn(*(show_surface(f"s{at}", listed) for at in range(n))))

    def show() -> None:
        result = agent.run_agent_sync("Hi")
        surfaces = Surfaces(result.messages)
        assert len([surface.tree for surface in surfaces.values()]) == n

    return show


async def _speak(input: RunAgentInput) -> str:
    return "word"


def _members(n: int) -> list[Member]:
    return [Member(FunctionAgent(_speak), f"m{at}") for at in range(n)]


def _team(make: Callable[[list[Member]], AbstractAgent[Any]]) -> Verb:
    def prepare(n: int, _: Path) -> Work:
        team = make(_members(n))
        return lambda: team.run_agent_sync("Hi")

    return prepare


def _never(results: object) -> bool:
    return False


def _chooser(members: list[Member]) -> AbstractAgent[Any]:
    named: Any = {f"m{at}": each for at, each in enumerate(members)}
    return RouterAgent(lambda _: "m0", **named)


_LIMITS = TeamLimits(calls=1000)
VERBS: dict[str, Verb] = {
    each.__name__.replace("_", " "): each
    for each in (
        *(messages_added_one_by_one, messages_set, messages_cloned, messages_rewound, messages_sent, turns_of_an_agent),
        *(edits_of_the_state, watchers_of_the_state, tools_offered_and_called, calls_approved, rounds_of_calls),
        *(calls_of_an_agent_as_a_tool, results_given, interrupts_answered, context_given, prompts_that_steer),
        *(subscribers, functions_for_events, middleware, observers, events_replayed, events_observed, result_shown),
        *(events_validated, messages_served, rows_asked, rows_compared_and_written, scenarios_held_and_compared),
        *(prompts_of_a_scenario, findings_written),
        *(turns_recorded, recorded_threads_compared_and_made_scenarios),
        *(components_shown_and_changed, surfaces_of_many_runs),
    )
} | {
    "text read": _reading(lambda run: run.text_stream),
    "calls read": _reading(lambda run: run.tool_call_stream),
    "snapshots read": _reading(lambda run: run.snapshots),
    "sse read": _reading(lambda run: run.sse()),
    "a long thread restored": _stored(_save_long, _save_long),
    "a long thread read": _stored(_save_long, lambda store, n: store.threads.get("t").result()),
    "a long thread read in pages": _stored(_save_long, _read_pages),
    "a long thread forked": _stored(_save_long, lambda store, n: store.threads.fork("t").result()),
    "a long thread rewound": _stored(_save_long, lambda store, n: store.threads.rewind("t", "u0").result()),
    "a long thread exported and imported": _stored(_save_long, _move),
    "branches of a thread": _stored(_save_branches, lambda store, n: store.threads.branches("t").result()),
    "threads saved": _stored(lambda store, n: None, _save_many),
    "threads listed": _stored(_save_many, _list),
    "threads deleted": _stored(_save_many, lambda store, n: store.threads.delete(everybody=True).result()),
    "runs kept": _kept(_runs),
    "events of a kept run": _kept(_events),
    "followers of a kept run": _kept(_followers),
    "kept runs answered": _kept(_answers),
    "members side by side": _team(lambda members: ParallelAgent(*members, limits=_LIMITS)),
    "members in order": _team(lambda members: SequentialAgent(*members, limits=_LIMITS)),
    "rounds of a member": _team(
        lambda members: LoopAgent(members[0], until=_never, rounds=len(members), limits=_LIMITS)
    ),
    "members to hand over to": _team(lambda members: HandoffAgent(*members, limits=_LIMITS)),
    "members to choose from": _team(_chooser),
}
"""The verbs, by what they take."""


@pytest.mark.parametrize(
    "verb",
    [*VERBS.values(), pytest.param(failures_kept_and_replayed, marks=pytest.mark.soak)],
    ids=[*VERBS, "failures kept and replayed"],
)
def test_four_times_as_many_take_four_times_the_work(verb: Verb, tmp_path: Path) -> None:
    def lines(n: int) -> int:
        folder = tmp_path / f"{n} of them"
        folder.mkdir(exist_ok=True)
        return lines_of(verb(n, folder), with_threads=True)

    # What is made once, such as threads that stay, is not counted.
    verb(1, tmp_path)()
    one, two = lines(1), lines(2)
    # The tests are small by the lines that they run; what a scan adds shows the better, the fewer each thing takes.
    few = min(12, max(2, 6_000 // (two - one + 1)))
    little, much = lines(1 + few), lines(1 + 4 * few)
    # What a call costs by itself is in each of them, and so in neither difference.
    assert much - little <= 1.3 * 3 * (little - one) + 500
