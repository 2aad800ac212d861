"""Random teams of scripted agents, at most four deep, and a judge of what becomes of their runs."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any

import anyio
from ag_ui.core import (
    ActivitySnapshotEvent,
    AssistantMessage,
    CustomEvent,
    MessagesSnapshotEvent,
    ReasoningEncryptedValueEvent,
    RunErrorEvent,
    RunFinishedInterruptOutcome,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageChunkEvent,
    TokenUsage,
    Tool,
    ToolMessage,
)

from agui_client import (
    AbstractAgent,
    AGUIError,
    Approve,
    ConversationSnapshot,
    HttpAgent,
    Resolve,
    RunFailedError,
    RunObserver,
    testing,
    tool,
)
from agui_client.asgi import agent_app
from agui_client.teams import HandoffAgent, Member, ParallelAgent, RouterAgent, SequentialAgent, Team, TeamAgent
from agui_client.testing import ScriptedAgent, Step

if TYPE_CHECKING:
    from ag_ui.core import Event, Message, RunAgentInput

    from agui_client import Change, RunResult
    from agui_client.types import RunEnd, RunScope

LOOK = Tool(name="look", description="Looks.", parameters={"type": "object"})
"""The tool of whoever calls the team."""
_USAGE = TokenUsage(model="m", input_tokens=1, output_tokens=2, total_tokens=3)
_SEEN = "seen"
_PARTIAL = {"agui-client": {"partial": True}}
_MOST_ROUNDS = 40
_HANGING = testing.pause(3600)


@tool(approval="always")
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


class Leaf(ScriptedAgent):
    """A scripted agent that counts its runs, and how many of them are open."""

    def __init__(self, name: str, turns: list[list[Any]], asks: int, **options: Any) -> None:
        super().__init__(*(_turn(steps) for steps in turns), agent_id=name, tools=[pay], **options)
        self.asks = asks
        self.hangs = any(each is _HANGING for steps in turns for each in steps)
        self.opened: list[str] = []
        self.closed: list[str] = []

    @property
    def is_open(self) -> bool:
        """Whether a run of it has no end yet."""
        return len(self.opened) > len(self.closed)

    async def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
        self.opened.append(input.run_id)
        try:
            async for event in super().run(input):
                yield event
        finally:
            self.closed.append(input.run_id)


def _turn(steps: list[Any]) -> Callable[[RunAgentInput], AsyncIterator[Step]]:
    async def play(input: RunAgentInput) -> AsyncIterator[Step]:
        *before, last = steps
        made = [_restated(input) if each == "snapshot" else each for each in before]
        if last is None or isinstance(last, RunFinishedInterruptOutcome):
            yield testing.turn(*made, outcome=last, usage=[_USAGE])
        else:
            yield testing.turn(*made, last)

    return play


def _restated(input: RunAgentInput) -> Step:
    """A snapshot that drops what the run streamed before it, rewrites what the agent said last, and says more."""
    messages: list[Message] = [
        each.model_copy(update={"content": f"{each.content}!"}) if each.role == "assistant" and each.content else each
        for each in input.messages
    ]
    return MessagesSnapshotEvent(messages=[*messages, AssistantMessage(id=f"restated-{len(messages)}", content="R")])


@dataclass
class LeafWatch(RunObserver):
    """Keeps the conversations of the leaves, as they were after each event."""

    states: dict[str, list[list[Message]]] = field(default_factory=dict[str, "list[list[Message]]"])
    """By thread."""
    usage: int = 0

    def on_start(self, run: RunScope) -> None:
        self._note(run)

    def on_event(self, run: RunScope, event: Event, change: Change) -> None:
        self._note(run)

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        self._note(run)
        self.usage += sum(each.total_tokens or 0 for each in end.usage)

    def _note(self, run: RunScope) -> None:
        owner = run.owner
        assert isinstance(owner, AbstractAgent)
        self.states.setdefault(run.input.thread_id, []).append(owner.messages)


@dataclass
class TeamWatch(RunObserver):
    """Keeps how each call of a member ended, as the team's caller gets it."""

    was_cut: dict[str, bool] = field(default_factory=dict[str, bool])
    """Whether a member was stopped from this side when it was called last, by its path; absent if it has no end."""
    usage: dict[str, int] = field(default_factory=dict[str, int])
    done: set[str] = field(default_factory=set[str])
    """The members that came to their end when they were called last, by their paths."""
    _waiting: set[str] = field(default_factory=set[str])

    def on_event(self, run: RunScope, event: Event, change: Change) -> None:
        if isinstance(event, SubagentStartedEvent):
            self.was_cut[_path(event.subagent_run_id)] = True
            self.done.discard(_path(event.subagent_run_id))
        if isinstance(event, SubagentFinishedEvent | SubagentErrorEvent):
            path = _path(event.subagent_run_id)
            self.was_cut[path] = isinstance(event, SubagentErrorEvent) and event.code in ("cancelled", "timeout")
            if self.was_cut[path]:
                # Whoever waited inside may have been called again, and stopped before a word of it was read.
                self.was_cut.update(dict.fromkeys((each for each in self._waiting if each.startswith(path)), True))
            self._waiting.discard(path)
            outcome = event.outcome if isinstance(event, SubagentFinishedEvent) else None
            if outcome is not None and outcome.type == "suspended":
                self._waiting.add(path)
            elif isinstance(event, SubagentFinishedEvent):
                self.done.add(path)
            reported = (event.metadata or {}).get("agui-client", {}).get("usage", ())
            self.usage[path] = self.usage.get(path, 0) + sum(each["totalTokens"] for each in reported)


def _path(subagent_run_id: str) -> str:
    """The path of a member: the keys of the teams around it, and its own."""
    return re.sub(r"-[0-9a-f]{8}\.\d+$", "", subagent_run_id) + "/"


@dataclass
class RandomTeam:
    """A team, and its leaves by their paths."""

    agent: AbstractAgent
    leaves: dict[str, Leaf]
    watch: LeafWatch
    team_watch: TeamWatch
    may_fail: bool


def random_team(
    random: Random, *, may_hang: bool, timeout: float | None = None, town: Town | None = None
) -> RandomTeam:
    """Make a team.

    Args:
        random: The source of all choices.
        may_hang: Whether leaves may hang.
        timeout: The time after which those that hang are given up.
        town: Serves the leaves; None leaves them in this process.
    """
    return _TeamMaker(random, may_hang, random.random() < 0.3, timeout, town).team()


class Town:
    """One server for the leaves of any number of teams, each at a path of its own."""

    def __init__(self) -> None:
        self._apps: dict[str, Any] = {}
        self.url = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._apps[scope["path"]](scope, receive, send)

    def settle(self, leaf: Leaf) -> HttpAgent:
        """Serve a leaf; returns an agent that asks it."""
        path = f"/{len(self._apps)}"
        self._apps[path] = agent_app(leaf)
        return HttpAgent(f"{self.url.rstrip('/')}{path}", agent_id=leaf.agent_id, strict=True)

    @contextmanager
    def opened(self) -> Generator[Town]:
        """Serve while the block lasts."""
        with testing.serve(self) as server:
            self.url = server.url
            yield self


class _TeamMaker:
    def __init__(
        self, random: Random, may_hang: bool, may_fail: bool, timeout: float | None, town: Town | None
    ) -> None:
        self._random, self._may_hang, self._may_fail = random, may_hang, may_fail
        self._timeout, self._town = timeout, town
        self._leaves: dict[str, Leaf] = {}
        self._watch = LeafWatch()

    def team(self) -> RandomTeam:
        agent = self._team(self._random.randrange(4), "", "team")
        seen = TeamWatch()
        agent.add_observer(seen)
        may_fail = self._may_fail or any(leaf.hangs for leaf in self._leaves.values())
        return RandomTeam(agent, self._leaves, self._watch, seen, may_fail)

    def _leaf(self, path: str, name: str) -> Leaf:
        asks = self._random.choice([0, 0, 0, 1, 1, 2])
        turns = [self._asking(number) for number in range(asks)]
        made = Leaf(name, [*turns, [*self._steps(), self._ending()]], asks, observers=[self._watch])
        self._leaves[path] = made
        return made

    def _steps(self) -> list[Step]:
        return [_step(self._random) for _ in range(self._random.randrange(1, 6))]

    def _asking(self, number: int) -> list[Any]:
        steps: list[Any] = self._steps()
        kind = self._random.choice(["interrupt", "look", "pay", "both"])
        if kind in ("look", "both"):
            steps.append(testing.tool_call("look", {"n": self._random.randrange(9)}))
        if kind == "pay":
            steps.append(testing.tool_call("pay", {"amount": self._random.randrange(9)}))
        asked = testing.interrupt("Sure?", interrupt_id=f"i{number}") if kind in ("interrupt", "both") else None
        return [*steps, asked]

    def _ending(self) -> Any:
        if self._may_fail and self._random.random() < 0.3:
            return RunErrorEvent(message="broken")
        if self._may_hang and self._random.random() < 0.3:
            return _HANGING
        return None

    def _member(self, depth: int, path: str, name: str) -> Member:
        is_leaf = depth == 0 or self._random.random() < 0.4
        place = f"{path}{name}/"
        timeout: float | None = None
        if is_leaf:
            leaf = self._leaf(place, name)
            inner: AbstractAgent = leaf if self._town is None else self._town.settle(leaf)
            timeout = self._timeout if leaf.hangs else None
        else:
            inner = self._team(depth - 1, place, name)
        policy: Any = self._random.choice(["nested", "nested", "shared", "dropped"])
        sees: Any = self._random.choice([None, "all", "last"])
        return Member(inner, name, state=policy, sees=sees, timeout=timeout)

    def _team(self, depth: int, path: str, name: str) -> AbstractAgent:
        members = [self._member(depth, path, f"m{number}") for number in range(self._random.randrange(1, 4))]
        named: Any = {each.name: each for each in members}
        policy: Any = self._random.choice(["raise", "continue"])
        options: Any = {"agent_id": name, "strict": True}
        match self._random.randrange(5):
            case 0:
                return SequentialAgent(*members, on_error=policy, **options)
            case 1:
                last = self._member(0, path, "then") if self._random.random() < 0.5 else None
                return ParallelAgent(*members, then=last, on_error=policy, **options)
            case 2:
                chosen = self._random.choice(members).name
                return RouterAgent(lambda _input: chosen, on_error=policy, options=options, **named)
            case 3:
                return HandoffAgent(*members, on_error=policy, **options)
            case _:
                lead = _lead([*named], catches=self._random.random() < 0.5)
                return TeamAgent(lead, on_error=policy, options=options, **named)


def _lead(names: list[str], *, catches: bool) -> Any:
    async def lead(team: Team) -> int:
        await team.say("First.")
        results: list[Any] = []
        with suppress(*((Exception,) if catches else ())):
            results = await team.gather(*names[1:])
        await team.run(names[0], speaks=True)
        await team.say(f"{len(results)} others.")
        return len(results)

    return lead


def _step(random: Random) -> Step:
    content = random.choice(["One.", "Two words.", ""])
    steps: list[Callable[[], Any]] = [
        lambda: testing.text(content),
        lambda: testing.text(content),
        lambda: testing.reasoning(content),
        lambda: testing.step("work", testing.text(content)),
        lambda: testing.state({"n": random.randrange(9)}),
        lambda: testing.patch({"op": "add", "path": "/m", "value": random.randrange(9)}),
        lambda: testing.patch({"op": "remove", "path": "/absent"}),
        lambda: CustomEvent(name="c", value=1),
        lambda: TextMessageChunkEvent(message_id=f"chunk-{random.randrange(10**9)}", delta="chunk"),
        lambda: ActivitySnapshotEvent(message_id="activity", activity_type="plan", content={"n": random.randrange(9)}),
        lambda: ReasoningEncryptedValueEvent(subtype="message", entity_id="message-1", encrypted_value="x"),
        lambda: _answered(random),
        lambda: "snapshot",
        lambda: testing.pause(0),
    ]
    made: Step = random.choice(steps)()
    return made


def _answered(random: Random) -> Any:
    call = f"own-{random.randrange(10**9)}"
    return testing.step(
        "call",
        testing.tool_call("search", {"q": 1}, tool_call_id=call),
        testing.tool_result("found", tool_call_id=call),
    )


async def run_to_the_end(made: RandomTeam, agent: AbstractAgent | None = None) -> RunResult | None:
    """Run a team, answer all that it asks, each time in what could be another process; None if the run failed."""
    agent = agent or made.agent
    used = 0
    seen = made.team_watch
    options: Any = {}
    try:
        result = await agent.run_agent("Go", tools=[LOOK])
        for _ in range(_MOST_ROUNDS):
            used += sum(each.total_tokens or 0 for each in result.usage)
            if not result.interrupts and not result.pending_tool_calls:
                told = sum(tokens for path, tokens in seen.usage.items() if path in made.leaves)
                # The tokens of whoever is stopped before it says how many are nobody's.
                spent = told if any(seen.was_cut.values()) else made.watch.usage
                assert used == told == spent, (used, told, spent)
                return result
            saved = ConversationSnapshot.model_validate_json(agent.snapshot().model_dump_json())
            agent = copy.copy(agent).clone(thread_id="another")
            agent.restore(saved)
            made.agent = agent
            options["resume"] = {each.id: _answer(each.reason) for each in result.interrupts}
            options["tool_results"] = {each.id: _SEEN for each in result.pending_tool_calls}
            result = await agent.run_agent(tools=[LOOK], **options)
    except (RunFailedError, TimeoutError):
        assert made.may_fail
        return None
    raise AssertionError("the team asks for ever")


async def called_again(made: RandomTeam) -> list[str]:
    """Go on with a run that failed, which will fail again; return the members that were done, and were called again."""
    done = {path: len(leaf.opened) for path, leaf in made.leaves.items() if path in made.team_watch.done}
    with suppress(RunFailedError, TimeoutError):
        await made.agent.run_agent(tools=[LOOK])
    return [
        f"{path} was done, and called again" for path, count in done.items() if len(made.leaves[path].opened) > count
    ]


def _answer(reason: str) -> Any:
    return Approve() if reason == "tool_call" else Resolve(True)


def findings(made: RandomTeam, result: RunResult | None) -> list[str]:
    """What is wrong with a run that ended."""
    found: list[str] = []
    expected = ("SNAP-5", "REASON-7", "SUB-9")
    if result is not None and any(warning.rule not in expected for warning in result.warnings):
        found.append(f"warnings {result.warnings}")
    if result is not None and "_team" in str(result.state):
        found.append(f"state {result.state}")
    team_messages = made.agent.messages
    thread_id = made.agent.thread_id
    repeated = [each for each, count in Counter(message.id for message in team_messages).items() if count > 1]
    found += [f"repeated id {each}" for each in repeated]
    for path, leaf in made.leaves.items():
        if len(leaf.opened) > leaf.asks + 1:
            found.append(f"{path} ran {len(leaf.opened)} times, with {leaf.asks} questions")
        states = made.watch.states.get(f"{thread_id}/{path.rstrip('/')}")
        if states is not None:
            found += _differences(path, team_messages, states, was_cut=made.team_watch.was_cut.get(path, True))
    return found


def _differences(path: str, messages: list[Message], states: list[list[Message]], *, was_cut: bool) -> list[str]:
    """What a team's conversation has of a leaf, and what the leaf's own has, if it is not the same.

    A leaf that was stopped may have gone on after the last of its events that was read: then the team has what the leaf
    had some events before, and an answer for each call that was left without one.
    """
    kept = [each for each in (_plain(message, path) for message in messages) if each is not None]
    ends = ("failed", "was cancelled")
    given_up = {f"{name} {end} before this call was answered." for name in path.split("/") for end in ends}
    given_up.add("no result: the conversation went on without one")
    kept = [each for each in kept if not (each[0] == "tool" and each[2] in given_up)]
    # What the caller has answered waits in the team's conversation for a leaf that is not called again.
    waiting = [each for each in kept if each[0] == "tool" and each[2] == _SEEN]
    wanted: list[Any] = []
    for own in states if was_cut else states[-1:]:
        wanted = [each for each in (_plain(message, "") for message in own) if each is not None]
        # Activities are not sent back to a member that goes on (INPUT-4), but stay in the team's conversation; one that
        # comes again is a new one for the member, and has its old place in the team's.
        some = [each for each in kept if each in wanted or not (each[0] == "activity" or each in waiting)]
        ordered, own_order = ([each for each in side if each[0] != "activity"] for side in (some, wanted))
        if sorted(map(str, some)) == sorted(map(str, wanted)) and ordered == own_order:
            return []
    more, less = ([each for each in a if each not in b] for a, b in ((kept, wanted), (wanted, kept)))
    return [f"{path} {'(stopped) ' if was_cut else ''}has {more}, not {less}, in all {kept}"]


def _plain(message: Message, path: str) -> Any:
    """A message of a member as it is compared; None for one that is not the member's."""
    if message.role in ("user", "system", "developer") or message.id.startswith("said-"):
        return None
    if isinstance(message, ToolMessage):
        if not message.tool_call_id.startswith(path):
            return None
        return ("tool", message.tool_call_id.removeprefix(path), message.content, message.metadata)
    if not message.id.startswith(path):
        return None
    calls = getattr(message, "tool_calls", None) or ()
    return (
        message.role,
        message.id.removeprefix(path),
        message.content,
        # That a member failed is known to its team, and not to itself.
        None if message.metadata == _PARTIAL else message.metadata,
        getattr(message, "encrypted_value", None),
        [(call.id.removeprefix(path), call.function.name, call.function.arguments) for call in calls],
    )


async def judged(seed: int, town: Town | None = None) -> list[str]:
    """Run the team of a seed; return what is wrong with it."""
    made = random_team(Random(seed), may_hang=seed % 3 == 0, timeout=0.05, town=town)
    with anyio.fail_after(60):
        try:
            result = await run_to_the_end(made)
        except (AGUIError, AssertionError) as error:
            return [f"{type(error).__name__}: {error}"]
        await closed(made)
        found = findings(made, result)
        if result is None:
            found += await called_again(made)
            await closed(made)
    return found


async def left(seed: int, town: Town | None = None) -> tuple[float, list[str]]:
    """Leave the run of the team of a seed at an event of its own.

    Returns:
        The seconds until every leaf was left, and the leaves that were not.
    """
    random = Random(seed)
    made = random_team(random, may_hang=True, town=town)
    most, began = random.randrange(1, 60), perf_counter()
    with anyio.fail_after(60), anyio.move_on_after(0.2), suppress(RunFailedError):
        async with made.agent.stream("Go", tools=[LOOK]) as run:
            count = 0
            try:
                async for _ in run:
                    count += 1
                    if count == most:
                        break
            finally:
                began = perf_counter()
    if town is not None:
        with anyio.move_on_after(10):
            await closed(made)
    return perf_counter() - began, [path for path, leaf in made.leaves.items() if leaf.is_open]


async def closed(made: RandomTeam) -> None:
    """Wait until no leaf is at work."""
    while any(leaf.is_open for leaf in made.leaves.values()):  # noqa: ASYNC110 - in another thread, perhaps
        await anyio.sleep(0.001)
