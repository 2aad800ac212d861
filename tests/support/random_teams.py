"""Random teams of scripted agents, at most four deep, and a judge of what becomes of their runs."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
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
    Resolve,
    RunFailedError,
    RunObserver,
    testing,
    tool,
)
from agui_client.teams import HandoffAgent, Member, ParallelAgent, RouterAgent, SequentialAgent, Team, TeamAgent
from agui_client.testing import ScriptedAgent, Step

if TYPE_CHECKING:
    from ag_ui.core import Message, RunAgentInput

    from agui_client import RunResult
    from agui_client.types import RunEnd, RunScope

LOOK = Tool(name="look", description="Looks.", parameters={"type": "object"})
"""The tool of whoever calls the team."""
_USAGE = TokenUsage(model="m", input_tokens=1, output_tokens=2, total_tokens=3)
_MOST_ROUNDS = 40


@tool(approval="always")
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


class Leaf(ScriptedAgent):
    """A scripted agent that counts its runs, and how many of them are open."""

    def __init__(self, name: str, turns: list[list[Any]], asks: int, **options: Any) -> None:
        super().__init__(*(_turn(steps) for steps in turns), agent_id=name, tools=[pay], **options)
        self.asks = asks
        self.opened: list[str] = []
        self.closed: list[str] = []

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
class Watch(RunObserver):
    """Keeps the last conversation of each thread of the members."""

    messages: dict[str, list[Message]] = field(default_factory=dict[str, "list[Message]"])
    usage: int = 0

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        owner = run.owner
        assert isinstance(owner, AbstractAgent)
        self.messages[run.input.thread_id] = owner.messages
        if end.ending == "aborted":
            # Because another one failed: nobody waits for what it has said and the team has not read yet.
            del self.messages[run.input.thread_id]
        self.usage += sum(each.total_tokens or 0 for each in end.usage)


@dataclass
class RandomTeam:
    """A team, and its leaves by their paths."""

    agent: AbstractAgent
    leaves: dict[str, Leaf]
    watch: Watch
    may_fail: bool


def random_team(random: Random, *, may_hang: bool = False) -> RandomTeam:
    return _TeamMaker(random, may_hang=may_hang, may_fail=random.random() < 0.3).team()


class _TeamMaker:
    def __init__(self, random: Random, *, may_hang: bool, may_fail: bool) -> None:
        self._random, self._may_hang, self._may_fail = random, may_hang, may_fail
        self._leaves: dict[str, Leaf] = {}
        self._watch = Watch()

    def team(self) -> RandomTeam:
        agent = self._team(self._random.randrange(4), "", "team")
        return RandomTeam(agent, self._leaves, self._watch, self._may_fail)

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
            return testing.pause(3600)
        return None

    def _member(self, depth: int, path: str, name: str) -> Member:
        is_leaf = depth == 0 or self._random.random() < 0.4
        place = f"{path}{name}/"
        inner = self._leaf(place, name) if is_leaf else self._team(depth - 1, place, name)
        policy: Any = self._random.choice(["nested", "nested", "shared", "dropped"])
        sees: Any = self._random.choice([None, "all", "last"])
        return Member(inner, name, state=policy, sees=sees)

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
                return TeamAgent(_lead([*named]), on_error=policy, options=options, **named)


def _lead(names: list[str]) -> Any:
    async def lead(team: Team) -> int:
        await team.say("First.")
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
    options: Any = {}
    try:
        result = await agent.run_agent("Go", tools=[LOOK])
        for _ in range(_MOST_ROUNDS):
            used += sum(each.total_tokens or 0 for each in result.usage)
            if not result.interrupts and not result.pending_tool_calls:
                # A member that is stopped because another one failed has no event left to tell its tokens.
                assert made.may_fail or used == made.watch.usage, (used, made.watch.usage)
                return result
            saved = ConversationSnapshot.model_validate_json(agent.snapshot().model_dump_json())
            agent = copy.copy(agent).clone(thread_id="another")
            agent.restore(saved)
            made.agent = agent
            options["resume"] = {each.id: _answer(each.reason) for each in result.interrupts}
            options["tool_results"] = {each.id: "seen" for each in result.pending_tool_calls}
            result = await agent.run_agent(tools=[LOOK], **options)
    except RunFailedError:
        assert made.may_fail
        return None
    raise AssertionError("the team asks for ever")


def _answer(reason: str) -> Any:
    return Approve() if reason == "tool_call" else Resolve(True)


def findings(made: RandomTeam, result: RunResult | None) -> list[str]:
    """What is wrong with a run that ended."""
    found: list[str] = []
    if result is not None and any(warning.rule not in ("SNAP-5", "REASON-7") for warning in result.warnings):
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
        if sorted(leaf.opened) != sorted(leaf.closed):
            found.append(f"{path} is still open")
        own = made.watch.messages.get(f"{thread_id}/{path.rstrip('/')}")
        if own is None or result is None:
            continue
        expected, actual = [_plain(each, "") for each in own], [_plain(each, path) for each in team_messages]
        # Where others have failed, this one may have been stopped between a result and the event that tells it.
        left_out = ("tool",) if made.may_fail else ()
        wanted = [each for each in expected if each is not None and each[0] not in left_out]
        # Activities are not sent back to a member that goes on (INPUT-4), but stay in the team's conversation.
        kept = [each for each in actual if each is not None and each[0] not in left_out]
        kept = [each for each in kept if each[0] != "activity" or each in wanted]
        if made.may_fail:
            # What one has said may be unread in a team inside this one that was stopped because another one failed.
            wanted = [each for each in wanted if each in kept]
        if sorted(map(str, kept)) != sorted(map(str, wanted)):
            found.append(f"{path}: {_difference(kept, wanted)}")
        # One that comes again is a new one for a member that went on meanwhile, and has its old place here.
        elif [each for each in kept if each[0] != "activity"] != [each for each in wanted if each[0] != "activity"]:
            found.append(f"{path}: order {kept} {wanted}")
    return found


def _difference(kept: list[Any], wanted: list[Any]) -> str:
    return f"has {[each for each in kept if each not in wanted]}, not {[each for each in wanted if each not in kept]}"


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
        message.metadata,
        getattr(message, "encrypted_value", None),
        [(call.id.removeprefix(path), call.function.name, call.function.arguments) for call in calls],
    )


async def judged(seed: int) -> list[str]:
    """Run the team of a seed; return what is wrong with it."""
    made = random_team(Random(seed))
    with anyio.fail_after(60):
        try:
            result = await run_to_the_end(made)
        except (AGUIError, AssertionError) as error:
            return [f"{type(error).__name__}: {error}"]
    return findings(made, result)


async def left(seed: int) -> list[str]:
    """Leave the run of the team of a seed at an event of its own; return the members that are still open."""
    random = Random(seed)
    made = random_team(random, may_hang=True)
    most = random.randrange(1, 60)
    with anyio.fail_after(60), anyio.move_on_after(0.2), suppress(RunFailedError):
        async with made.agent.stream("Go", tools=[LOOK]) as run:
            count = 0
            async for _ in run:
                count += 1
                if count == most:
                    break
    return [path for path, leaf in made.leaves.items() if sorted(leaf.opened) != sorted(leaf.closed)]
