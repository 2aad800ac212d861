"""Random teams whose members pay, ask and fail, while programs are killed; what they promise is judged from outside.

A member does as a model would: it reads from its conversation what it has done, and does the next thing of its plan.
The judge knows the plans, the functions that were called and what the caller was asked, and nothing of how teams
remember. `tests/programs/streams_against_typescript.py --killed` runs many, with the TypeScript client as a reader.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
from ag_ui.core import (
    AssistantMessage,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    Tool,
    ToolMessage,
)

from agui_client import (
    AbstractAgent,
    AGUIError,
    ApprovalRequest,
    Approve,
    ConversationSnapshot,
    FunctionTool,
    HttpAgent,
    Resolve,
    ToolContext,
    tool,
    validate,
)
from agui_client.asgi import agent_app
from agui_client.store import MemoryStore, Store
from agui_client.teams import LoopAgent, Member, ParallelAgent, RouterAgent, SequentialAgent, Team, TeamAgent
from agui_client.testing import ScriptedAgent, interrupt, pause, text, tool_call, turn
from support.cut_calls import decided_in, own_id
from support.killed_server import Connection, KilledServer, Process

if TYPE_CHECKING:
    from ag_ui.core import Event, Interrupt, Message, RunAgentInput, ToolCall

    from agui_client import RunResult

PLACES = ("here", "served", "stored")
"""Where a team runs: in this program, on a server, and on a server that stores its threads. A server that stores
nothing is not killed: what its teams ask is lost with it."""
LOOK = Tool(name="look", description="Looks.", parameters={"type": "object"})
"""The tool of the caller."""
_SECRET = "the secret of all processes of the server"
_MOST_RUNS = 60
_DONE = object()
_TOLERATED = ("SNAP-5",)
_SEVERAL = {"pays": "pay", "approves": "approve"}
"""The kinds of steps that call a tool several times, and the tool."""
_STEPS = 8
"""A process is killed within the first 2 to this power steps of a run, if it is."""


@dataclass
class Plan:
    """What a member is to do."""

    name: str
    steps: list[tuple[str, str]]
    """The kinds and keys of what it does, one after the other."""
    failures: int = 0
    """The number of times that it fails before its last words."""


@dataclass
class World:
    """What has happened outside of the team, in all its processes."""

    plans: dict[str, Plan] = field(default_factory=dict[str, Plan])
    failed: Counter[str] = field(default_factory=Counter[str])
    begun: set[str] = field(default_factory=set[str])
    """The keys of the payments that were begun."""
    over: set[str] = field(default_factory=set[str])
    """The invocations whose ends the caller was told of in runs that were not killed."""
    asked: list[str] = field(default_factory=list[str])
    answered: set[str] = field(default_factory=set[str])
    """The keys of the questions whose answers no kill can have lost."""
    decided: set[str] = field(default_factory=set[str])
    """The keys of the payments whose approvals by people in the process were saved."""
    kills: int = 0
    failures: int = 0
    findings: list[str] = field(default_factory=list[str])


@dataclass
class End:
    """The conversation when the team has come to its end."""

    messages: list[Message]
    state: Any
    text: str | None = None
    """The text of the last result; None if the program was killed before it was given."""


def made(seed: int, world: World, process: Process, *, has_people: bool = False) -> AbstractAgent:
    """Return the team of a seed, as any process makes it."""
    return _Maker(Random(seed), world, process, Random(f"{seed} people") if has_people else None).team()


class _Maker:
    def __init__(self, random: Random, world: World, process: Process, people: Random | None) -> None:
        self._random, self._world, self._process = random, world, process
        self._people = people
        """Draws who has people in the process; of its own, so that the same teams are made with them and without."""
        self._leaves = 0

    def team(self) -> AbstractAgent:
        return self._team(self._random.choice([0, 1, 1, 2, 2, 3]), "team")

    def _team(self, depth: int, name: str) -> AbstractAgent:
        random = self._random
        members = [self._member(depth, f"m{number}") for number in range(random.randrange(1, 3 if depth > 1 else 4))]
        options: Any = {"agent_id": name}
        match random.randrange(6):
            case 0:
                return SequentialAgent(*members, **options)
            case 1 | 2:
                last = self._member(0, "then") if random.random() < 0.3 else None
                return ParallelAgent(*members, then=last, **options)
            case 3:
                return LoopAgent(*members, until=lambda *_: True, **options)
            case 4:
                chosen = random.choice(members)
                named: Any = {chosen.name: chosen}
                return RouterAgent(lambda _input: chosen.name, options=options, **named)
            case _:
                named = {each.name: each for each in members}
                return TeamAgent(_lead([*named]), options=options, **named)

    def _member(self, depth: int, name: str) -> Member:
        is_leaf = depth == 0 or self._random.random() < 0.3
        agent = self._leaf() if is_leaf else self._team(depth - 1, name)
        retries = self._random.choice([0, 0, 0, 1])
        return Member(agent, name, retries=retries, state=self._random.choice(["nested", "shared", "dropped"]))

    def _leaf(self) -> ScriptedAgent:
        random, world = self._random, self._world
        self._leaves += 1
        name = f"leaf{self._leaves}"
        kinds = random.choices(["pay", "say", "pays"], k=random.randrange(3))
        if random.random() < 0.5:
            kinds.insert(random.randrange(len(kinds) + 1), random.choice(["ask", "look", "approve"]))
        handlers: dict[str, Any] = {}
        if self._people is not None:
            kinds = [
                self._people.choice(["trip", "approve"]) if each in ("approve", "look") else each for each in kinds
            ]
            kinds = [self._people.choice(["pay", "approves", "trip"]) if each == "pay" else each for each in kinds]
            handlers = self._handlers() if self._people.random() < 0.5 else {}
        steps = [(kind, f"{name}.{number}") for number, kind in enumerate(kinds)]
        plan = Plan(name, steps, failures=random.choice([0, 0, 1, 2]))
        world.plans[name] = plan
        paces = [random.choice([0, 0, 0.001, 0.004]) for _ in range(8)]
        process = self._process

        async def pay(key: str) -> str:
            """Pay."""
            await process.work()
            if key in world.begun:
                world.findings.append(f"{key} is begun again")
            world.begun.add(key)
            await process.work(paces[len(key) % 8])
            return f"paid {key}"

        async def trip(context: ToolContext, key: str) -> str:
            """Ask, and then pay."""
            await process.work()
            if context.left is None:
                context.leave(key)
            await context.ask(f"ask {key}")
            return await pay(key)

        async def play(input: RunAgentInput) -> AsyncIterator[Any]:
            await process.work(paces[len(input.messages) % 8])
            *steps, last = _next(plan, world, input)
            outcome = last if isinstance(last, RunFinishedInterruptOutcome) else None
            steps += [] if outcome or last is _DONE else [last]
            yield turn(pause(paces[3]), *steps, outcome=outcome)

        tools: list[FunctionTool[..., Any]] = [
            tool(pay, name="pay"),
            tool(pay, name="approve", approval="always"),
            tool(trip, name="trip"),
        ]
        return ScriptedAgent(play, agent_id=name, tools=tools, **handlers)

    def _handlers(self) -> dict[str, Any]:
        """Return the functions that ask the people in the process."""
        process, world = self._process, self._world

        async def approve(request: ApprovalRequest) -> bool:
            await process.work()
            if (key := request.arguments["key"]) in world.decided | world.begun:
                world.findings.append(f"{key} is to be approved again")
            await process.work()
            return True

        async def answer(interrupt: Interrupt) -> Resolve:
            await process.work()
            if (key := (interrupt.message or "")[4:]) in world.begun:
                world.findings.append(f"{key} is asked again, and was paid")
            return Resolve("yes")

        return {"approve": approve, "answer": answer}


def _lead(names: list[str]) -> Callable[[Team], Any]:
    async def lead(team: Team) -> str:
        await team.say("First.")
        await team.once(lambda: 1)
        await team.gather(*names[1:])
        await team.run(names[0], speaks=True)
        await team.say("Last.")
        return "led"

    return lead


def _next(plan: Plan, world: World, input: RunAgentInput) -> Iterator[Any]:
    """Yield what a member says and does next, which it finds out from its conversation."""
    said = {str(each.content) for each in input.messages if each.role == "assistant"}
    results = _results(input)
    world.findings += [f"{plan.name} reads {each!r}" for each in results.values() if not _is_real(each)]
    for kind, key in plan.steps:
        keys = [f"{key}{letter}" for letter in "abc"] if kind in _SEVERAL else [key]
        if kind == "ask" and f"yes {key}" not in said:
            yield text(f"yes {key}" if input.resume else f"{key}?")
            if not input.resume:
                yield interrupt(f"ask {key}")
                return
        elif kind == "say":
            yield text(f"on {key}")
        elif kind != "ask" and (missing := [each for each in keys if each not in results]):
            yield text(f"now {key}")
            name = _SEVERAL.get(kind, kind)
            for each in missing:
                yield tool_call(name, {"key": each}, tool_call_id=str(uuid4()))
            return
    if world.failed[plan.name] < plan.failures:
        world.failed[plan.name] += 1
        yield text("Half")
        yield RunErrorEvent(message="broken")
        return
    yield text(f"{plan.name} is done")
    yield _DONE


def _results(input: RunAgentInput) -> dict[str, str]:
    """Return the results of a member's calls by their keys."""
    calls = {
        call.id: json.loads(call.function.arguments).get("key", "")
        for each in input.messages
        if isinstance(each, AssistantMessage)
        for call in each.tool_calls or ()
    }
    results = [each for each in input.messages if isinstance(each, ToolMessage)]
    return {calls[each.tool_call_id]: str(each.content) for each in results if each.tool_call_id in calls}


def _is_real(result: str) -> bool:
    return result.startswith(("paid ", "unknown: ", "seen "))


# --- one caller, and one team in one process after the other


async def recovered(
    seed: int, place: str, *, streams: list[Any] | None = None, around: Any = None, has_people: bool = False
) -> World:
    """Run the team of a seed to its end, whatever fails and is killed; return what happened.

    Args:
        seed: The seed of the team, and of the kills.
        place: One of `PLACES`.
        streams: Gets the events of each run.
        around: Returns an app around the server's.
        has_people: Whether some members have people in their own process, and tools that ask.
    """
    world, random = World(), Random(f"{seed} {place}")

    def make(process: Process) -> AbstractAgent:
        return made(seed, world, process, has_people=has_people)

    caller = _Caller(make, place, random, world, [] if streams is None else streams, around or (lambda app: app))
    with anyio.fail_after(60):
        try:
            result = await caller.run_to_the_end()
        except Exception as error:
            world.findings.append(f"{type(error).__name__}: {error}")
            return world
        finally:
            await caller.close()
    world.findings += _broken(world, result)
    return world


class _Caller:
    def __init__(
        self,
        make: Callable[[Process], AbstractAgent],
        place: str,
        random: Random,
        world: World,
        streams: list[Any],
        around: Callable[[Any], Any],
    ) -> None:
        self._make, self._place, self._random, self._world, self._streams = make, place, random, world, streams
        self._saved: ConversationSnapshot | None = None
        self._store, self._stores, self._server = MemoryStore(), list[Store](), KilledServer()
        self._sent: list[str] = []
        self._was_killed = self._is_over = False
        self._app = around(self._server)
        self._agent: AbstractAgent = self._page(None)
        self._begin_process()

    async def close(self) -> None:
        for each in self._stores:
            await each.aclose()

    def _page(self, thread_id: str | None) -> HttpAgent:
        """Return a client of the server that has nothing of the thread."""
        connect_url = "http://team/connect"
        return HttpAgent("http://team/", connect_url=connect_url, app=self._app, thread_id=thread_id, strict=True)

    def _begin_process(self) -> None:
        self._process = self._server.process = process = Process()
        team = self._make(process)
        if self._place == "here":
            team.save_with(self._save)
            self._agent = team
        elif self._place == "served":
            self._server.app = agent_app(team, secret=_SECRET)
        else:
            self._connection = Connection(self._store, process)
            self._stores.append(store := Store(self._connection))
            self._server.app = agent_app(
                lambda _request, input: store.threads.open(input.thread_id, team), secret=_SECRET
            )

    async def run_to_the_end(self) -> End | None:
        """Run the team, go on after failures and kills, and answer all that it asks; None if it does not end."""
        options: dict[str, Any] = {}
        prompt: str | None = "Go"
        for _ in range(_MOST_RUNS):
            result = await self._run(prompt, options)
            if self._was_killed and self._is_over:
                return End(self._agent.messages, self._agent.state)
            if result is None:
                has_prompt = any(each.role == "user" for each in self._agent.messages)
                prompt, options = None if has_prompt else "Go", self._again(options)
                continue
            if not result.interrupts and not result.pending_tool_calls:
                return End(result.messages, result.state, result.text)
            prompt, options = None, self._answers(result.interrupts, result.pending_tool_calls)
        self._world.findings.append("it does not come to its end")
        return None

    def _again(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the keywords of a run after one that failed or was killed: what still waits is answered."""
        if self._was_killed:
            cut = self._agent.incomplete_ids
            calls = [each for each in self._agent.pending_tool_calls if each.id not in cut]
            return self._answers(self._agent.pending_interrupts, calls)
        # The same answers may be given again, and need not.
        return {"resume": options["resume"]} if "resume" in options and self._random.random() < 0.3 else {}

    async def _run(self, prompt: str | None, options: dict[str, Any]) -> RunResult | None:
        """Run the team once; None if the run failed, or its process was killed."""
        process, self._was_killed = self._process, False
        is_killed = self._random.random() < 0.5 and self._place != "served"
        process.steps = int(2 ** self._random.uniform(0, _STEPS)) if is_killed else 0
        events, outcome = list["Event"](), list["RunResult"]()
        self._streams.append(events)

        async def run() -> None:
            try:
                async with self._agent.stream(prompt, tools=[LOOK], **options) as run:
                    async for event in run:
                        events.append(event)
                    outcome.append(await run.result())
            except AGUIError as error:
                self._world.failures += 1
                if "broken" not in str(error) and not process.is_killed:
                    self._world.findings.append(f"{type(error).__name__}: {error}")
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            if self._place == "here":
                await process.killed.wait()
                tasks.cancel_scope.cancel()
        if process.is_killed:
            await self._replace_process()
        if self._was_killed and (self._place == "here" or not outcome):
            return None
        self._was_killed = False
        self._judge(events)
        # Questions whose answers a failed run carried wait again, as long as nothing was begun by them (SET-26).
        self._world.answered |= {each for each in self._sent if options and (outcome or each in self._world.begun)}
        self._sent = []
        return outcome[0] if outcome else None

    async def _replace_process(self) -> None:
        """Begin another process in the place of one that was killed."""
        self._was_killed = True
        self._world.kills += 1
        if self._place == "stored":
            await self._connection.run_out()
        self._begin_process()
        if self._place == "here":
            if self._saved is not None:
                saved = self._saved.model_dump_json(by_alias=True)
                self._agent.restore(ConversationSnapshot.model_validate_json(saved))
        elif self._place == "stored":
            # What the caller had read of a run that was killed is not all in the thread: it gets the thread anew.
            self._agent = self._page(self._agent.thread_id)
            await self._agent.connect_agent()
        # The notes go before the run ends.
        has_answer = any(each.role == "assistant" for each in self._agent.messages)
        self._is_over = has_answer and "_team" not in json.dumps(await self._stored_state())

    async def _stored_state(self) -> Any:
        """Return the state of the team with its notes, which the page of a server does not have."""
        if self._place == "here":
            return self._agent.state
        async with self._stores[-1].threads.open(self._agent.thread_id, HttpAgent("http://team/")) as opened:
            return opened.state

    def _judge(self, events: list[Event]) -> None:
        """Find members that were asked again when their end was told."""
        world = self._world
        begun = {each.subagent_run_id.partition("~")[0] for each in events if isinstance(each, SubagentStartedEvent)}
        world.findings += [f"{each} had ended, and was asked again" for each in begun & world.over]
        ends = [each for each in events if isinstance(each, SubagentFinishedEvent)]
        world.over |= {each.subagent_run_id for each in ends if each.outcome is None}

    async def _save(self, checkpoint: Any) -> None:
        """Save the conversation."""
        await self._process.work()
        self._saved = saved = checkpoint.snapshot()
        if decided := decided_in(saved.state):
            calls = {own_id(call_id): call for call_id, call in _calls_in(saved.messages).items()}
            self._world.decided |= {_key(calls[own_id(each)]) for each in decided}
        await self._process.work()

    def _answers(self, interrupts: list[Interrupt], pending: list[ToolCall]) -> dict[str, Any]:
        world, answers = self._world, dict[str, Any]()
        calls = _calls_in(self._agent.messages)
        self._sent = []
        for each in interrupts:
            is_question = (each.message or "").startswith("ask ")
            key = (each.message or "")[4:] if is_question else _key(calls[each.tool_call_id or ""])
            answers[each.id] = Resolve("yes") if is_question else Approve()
            self._ask(key)
        looks = {}
        for call in pending:
            self._ask(key := _key(call))
            looks[call.id] = f"seen {key}"
        if answers and looks and self._random.random() < 0.3:
            # The caller's tools are answered later.
            self._sent = [each for each in self._sent if f"seen {each}" not in looks.values()]
            looks = {}
        world.asked += self._sent
        return {**({"resume": answers} if answers else {}), **({"tool_results": looks} if looks else {})}

    def _ask(self, key: str) -> None:
        # A caller keeps the questions that it has answered in a run that failed, and may answer them again.
        if key in self._world.answered and not (self._was_killed and self._place != "here"):
            self._world.findings.append(f"{key} is asked again, and was answered")
        self._sent.append(key)


def _calls_in(messages: Iterable[Message]) -> dict[str, ToolCall]:
    return {call.id: call for each in messages for call in getattr(each, "tool_calls", None) or ()}


def _key(call: Any) -> str:
    return str(json.loads(call.function.arguments)["key"])


# --- the judge


def invalid(events: list[Event]) -> list[str]:
    """Return the faults of the events of a run, or of the beginning of one that was cut."""
    is_cut = not events or not isinstance(events[-1], RunFinishedEvent | RunErrorEvent)
    tolerated = (*_TOLERATED, "TRUNC-1") if is_cut else _TOLERATED
    return [f"{each.rule}: {each.problem}" for each in validate(events) if each.rule not in tolerated]


def _broken(world: World, result: End | None) -> list[str]:
    """Return the promises that were not kept."""
    if result is None:
        return ["it does not end"]
    found = list[str]()
    if "_team" in json.dumps(result.state):
        found.append(f"the state has notes: {result.state}")
    messages = result.messages
    repeated = [each for each, count in Counter(each.id for each in messages).items() if count > 1]
    found += [f"repeated id {each}" for each in repeated]
    said = Counter(str(each.content) for each in messages if each.role == "assistant" and each.content)
    reached = {each.removesuffix(" is done") for each in said if each.endswith(" is done")}
    if said["Half"]:
        found += [f"words of a failed attempt are left: {each.id}" for each in messages if each.content == "Half"]
    for name in reached:
        plan = world.plans[name]
        if said[f"{name} is done"] != 1:
            found.append(f"{name} has ended {said[f'{name} is done']} times in the conversation")
        for kind, key in plan.steps:
            keys = [f"{key}{letter}" for letter in "abc"] if kind in _SEVERAL else [key]
            if kind not in ("ask", "say", "look"):
                found += _of_payments(keys, messages, world)
    voice = [each for each in messages if each.role == "assistant" and each.subagent_run_id is None and each.content]
    if voice and result.text not in (None, voice[-1].content):
        found.append(f"the text is {result.text!r}, and the team said {voice[-1].content!r}")
    return found


def _of_payments(keys: list[str], messages: Any, world: World) -> Iterator[str]:
    calls = {call_id: _key(call) for call_id, call in _calls_in(messages).items()}
    for key in keys:
        contents = [str(m.content) for m in messages if isinstance(m, ToolMessage) and calls.get(m.tool_call_id) == key]
        if len(contents) != 1:
            yield f"{key} has the results {contents}"
        elif contents[0] == f"paid {key}":
            if key not in world.begun:
                yield f"{key} was never begun"
        elif not contents[0].startswith("unknown: ") or not world.kills + world.failed.total():
            yield f"{key} is {contents[0]!r}"
