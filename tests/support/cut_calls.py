"""Calls whose process ends behind one of its saves: what happens outside of them, and what their conversations say.

A member does what is left of its rounds, which it reads from its conversation, as a model would; so it can be asked
again at any place. `World` counts what is done outside, and outlives the processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeAlias, cast

from ag_ui.core import (
    Interrupt,
    RunAgentInput,
    RunFinishedInterruptOutcome,
    ToolMessage,
)
from pydantic_core import from_json

from agui_client import (
    AbstractAgent,
    ApprovalRequest,
    Approve,
    ConversationSnapshot,
    Deny,
    Resolve,
    ToolContext,
    ToolLimits,
    tool,
)
from agui_client.errors import HTTPStatusError
from agui_client.teams import ParallelAgent, SequentialAgent
from agui_client.testing import ScriptedAgent, Turn, text, tool_call, turn
from agui_client.types import Checkpoint
from support.killed_server import Process

Round: TypeAlias = "list[tuple[str, dict[str, Any]]]"
"""The calls that a member makes in one run, with their arguments; or what it asks, in one call of `ASKS`."""
ASKS = "asks"
_LOOK: Round = [("look", {"at": "x"})]
ROUNDS: dict[str, list[Round]] = {
    "plain": [],
    "a tool": [_LOOK],
    "an approval": [[("pay", {"to": "ada"})]],
    "an edit": [[("pay", {"to": "old"})]],
    "a denial": [[("pay", {"to": "dear"})]],
    "payments": [[("pay", {"to": each}) for each in ("ada", "dear", "old", "bob")]],
    "an interrupt": [[(ASKS, {"i": "First?", "j": "Second?"})]],
    "a question": [[("trip", {})]],
    "two rounds": [_LOOK, [("pay", {"to": "ada"})]],
}
"""What members do, by stories."""


class KilledError(BaseException):
    """The end of the process."""


def decision(payee: str) -> Approve | Deny:
    """Return what every person decides about a payment."""
    special: dict[str, Approve | Deny] = {"dear": Deny("too dear"), "old": Approve({"to": "new"})}
    return special.get(payee, Approve())


class World:
    """What happens outside of the program, and outlives it.

    Args:
        has_handlers: Whether agents have the functions that ask people; otherwise their callers ask.
    """

    def __init__(self, *, has_handlers: bool = True) -> None:
        self.called, self.asked = Counter[str](), Counter[str]()
        self.saved: list[tuple[bool, set[str], ConversationSnapshot]] = []
        self.sent = dict[str, None]()
        self.kill_at: int | None = None
        self.process: Process | None = None
        """The process on a server; None for one that ends with an exception behind a save."""
        self.has_handlers = has_handlers

    def note(self, kind: str, key: str) -> None:
        """Note that a function was called, or a person asked.

        Args:
            kind: "called" or "asked".
            key: About whom, or the question.
        """
        (self.called if kind == "called" else self.asked)[key] += 1

    async def live(self) -> None:
        """End the task, or do nothing for ever, if its process has ended."""
        if self.process is not None:
            await self.process.work()
        if self.kill_at is not None and len(self.saved) >= self.kill_at:
            raise KilledError

    def agent(self, *turns: Any, **options: Any) -> ScriptedAgent:
        """A process with the tools and the people."""

        @tool(approval="always")
        async def pay(to: str) -> str:
            await self.live()
            self.note("called", to)
            return f"paid {to}"

        @tool
        async def look(at: str) -> str:
            await self.live()
            self.note("called", at)
            return f"saw {at}"

        @tool
        async def trip(context: ToolContext) -> str:
            await self.live()
            if context.left is None:
                context.leave("so far")
            return f"to {await context.ask('Where to?')}"

        async def approve(request: ApprovalRequest) -> Approve | Deny:
            await self.live()
            self.note("asked", request.arguments["to"])
            return decision(request.arguments["to"])

        async def answer(interrupt: Interrupt) -> Resolve:
            await self.live()
            self.note("asked", interrupt.message or interrupt.id)
            return Resolve("Rome")

        handlers: dict[str, Any] = {"approve": approve, "answer": answer} if self.has_handlers else {}
        limits = ToolLimits(at_once=1)
        given: dict[str, Any] = {**handlers, **options}
        return ScriptedAgent(*turns, tools=[pay, look, trip], tool_limits=limits, **given).save_with(self.save)

    async def save(self, checkpoint: Checkpoint) -> None:
        """Save, and end the process behind one of the saves."""
        await self.live()
        if checkpoint.run_id is not None:
            self.sent[checkpoint.run_id] = None
        self.saved.append((checkpoint.run_id is not None, {*self.asked}, checkpoint.snapshot()))
        if len(self.saved) == self.kill_at:
            raise KilledError


def member(world: World, name: str, rounds: Sequence[Round]) -> ScriptedAgent:
    """Return an agent that does what is left of its rounds, by what its conversation has."""

    async def play(input: RunAgentInput) -> AsyncIterator[Turn]:
        done = {each.tool_call_id.rpartition("/")[2] for each in input.messages if each.role == "tool"}
        for number, calls in enumerate(rounds):
            if calls[0][0] == ASKS:
                if input.resume:
                    break
                asked = [Interrupt(id=key, reason="r", message=words) for key, words in calls[0][1].items()]
                yield turn(outcome=RunFinishedInterruptOutcome(type="interrupt", interrupts=asked))
                return
            made = {f"{name}-{number}-{at}": each for at, each in enumerate(calls)}
            if missing := made.keys() - done:
                ids = [each for each in made if each in missing]
                yield turn(*(tool_call(made[each][0], made[each][1], tool_call_id=each) for each in ids))
                return
        yield turn(text("Done."))

    return world.agent(play, agent_id=name).save_with(None)


TEAMS: dict[str, Callable[[World, Sequence[Round]], AbstractAgent]] = {
    "agent": lambda world, rounds: member(world, "a", rounds),
    "team": lambda world, rounds: SequentialAgent(member(world, "z", []), member(world, "a", rounds)),
    "team in a team": lambda world, rounds: SequentialAgent(
        SequentialAgent(member(world, "a", rounds), agent_id="inner"), member(world, "z", []), agent_id="outer"
    ),
    "side by side": lambda world, rounds: ParallelAgent(
        member(world, "a", rounds), member(world, "b", [[("look", {"at": "b"})]])
    ),
}
"""Who has a member with a story: the member itself, or a team around it."""


# --- the caller

_MOST_CALLS = 20


class Caller:
    """Who calls an agent, and answers what it left: all at once, or one call of a tool after the other."""

    def __init__(self, world: World, *, is_patient: bool) -> None:
        self._world, self._is_patient = world, is_patient

    async def run(self, agent: AbstractAgent, prompt: str | None) -> None:
        """Call an agent until nothing waits any more."""
        # Approvals that were saved need nobody: they are carried out by a call that brings nothing.
        has_questions = bool(agent.pending_interrupts) and not self._world.has_handlers
        left: dict[str, Any] = self.answers(agent) if has_questions else {"prompt": prompt}
        for _ in range(_MOST_CALLS):
            try:
                await agent.run_agent(**left)
            except HTTPStatusError as error:
                # The page has come back to a thread in which nothing waits, and nothing is left to do.
                if error.status_code != 409 or left != {"prompt": None}:
                    raise
                return
            if not (left := self.answers(agent)):
                return
        raise AssertionError("it does not end")

    def answers(self, agent: AbstractAgent) -> dict[str, Any]:
        """Return the keywords of the next call: answers to all that waits; none if nothing does."""
        payees, resume, results = payees_in(agent.snapshot()), dict[str, Any](), dict[str, Any]()
        for each in agent.pending_interrupts:
            payee = payees.get(own_id(each.tool_call_id or ""), "")
            self._world.note("asked", payee or each.message or "")
            resume[each.id] = decision(payee) if payee else Resolve("Rome")
        about = {each.tool_call_id for each in agent.pending_interrupts}
        for call in agent.pending_tool_calls:
            if call.id not in about and call.function.name == "pay" and not (results and self._is_patient):
                self._world.note("asked", payees[own_id(call.id)])
                results[call.id] = decision(payees[own_id(call.id)])
        return {**({"resume": resume} if resume else {}), **({"tool_results": results} if results else {})}


# --- what conversations say


def results_in(document: ConversationSnapshot) -> list[str]:
    """Return the results of tools in a document."""
    return [str(each.content) for each in document.messages if each.role == "tool"]


def payees_in(document: ConversationSnapshot) -> dict[str, str]:
    """Return whom the calls of a document pay, by the ids that the members have for the calls."""
    made = [each for message in document.messages for each in getattr(message, "tool_calls", None) or ()]
    # Of a call that is arriving there may be no argument yet.
    given = {own_id(each.id): from_json(each.function.arguments or "{}", allow_partial=True) for each in made}
    return {key: arguments.get("to", "") for key, arguments in given.items()}


def given_in(document: ConversationSnapshot) -> set[str]:
    """Return what people have said by a document: its ledger, its results, or the journal of a team."""
    payees = payees_in(document)
    decided = [each.tool_call_id for each in document.tool_calls if each.decision is not None]
    decided += [each.tool_call_id for each in document.messages if isinstance(each, ToolMessage)]
    said = {payees[own_id(each)] for each in (*decided, *decided_in(document.state))}
    questions = [each.question for each in document.tool_calls if each.question is not None]
    said |= {"Where to?" for each in questions if each.given is not None}
    words = {"i": "First?", "j": "Second?"}
    kept = [each.interrupt_id for each in document.kept_answers]
    kept += [each["interruptId"] for pending in pending_in(document.state) for each in pending.get("answers", ())]
    return said | {words[each] for each in kept}


def own_id(tool_call_id: str) -> str:
    """Return the id of a call as the member that made it has it."""
    return tool_call_id.rpartition("/")[2]


def decided_in(value: Any) -> list[str]:
    """Return the calls of members that were decided about and not begun, by the journals in a state."""
    calls = [each for pending in pending_in(value) for each in pending.get("calls", ())]
    return [each["tool_call_id"] for each in calls if each["status"] == "waiting" and each.get("decision")]


def pending_in(value: Any) -> list[dict[str, Any]]:
    """Return what members have left to do between two of their runs, by the journals in a state."""
    if not isinstance(value, dict):
        return []
    state = cast("dict[str, Any]", value)
    own: list[dict[str, Any]] = [each for key, each in state.items() if key == "pending"]
    return own + [each for inner in state.values() for each in pending_in(inner)]
