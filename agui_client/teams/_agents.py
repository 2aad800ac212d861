"""The kinds of teams. Each is an agent: it streams, is served, is asked by a tool, and is a member of other teams.

To change

- a kind of team: a `_lead` here; what it can do is in `teams/_team.py`, how a call of a member is carried out in
  `teams/_member_calls.py`, handovers in `teams/_handover.py`
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

from ag_ui.core import Message, RunAgentInput

from agui_client._core.agent.agent import AbstractAgent, as_run_input
from agui_client._core.protocol.schema import is_object
from agui_client._core.run.options import lists_keywords
from agui_client._core.run.scope import AgentOptions, StateT
from agui_client._core.run.subagents import JOURNAL, SubagentResult, with_journal_of
from agui_client._core.transport.timeouts import check_number
from agui_client.errors import UsageError
from agui_client.teams._handover import Handover, check_handovers, transfer_name, transfer_tool
from agui_client.teams._id_scope import owner_key
from agui_client.teams._limits import TeamLimitError, TeamLimits, check_limits
from agui_client.teams._members import Member, OnError, as_member
from agui_client.teams._source import TeamSource
from agui_client.teams._team import Team

if TYPE_CHECKING:
    Choice: TypeAlias = "Callable[[RunAgentInput], str | Awaitable[str]]"
    Lead: TypeAlias = "Callable[[Team], Awaitable[Any]]"


class _TeamBase(AbstractAgent[StateT]):
    """An agent that runs members, within limits, as its `_lead` says."""

    is_team = True

    def __init__(
        self, members: list[Member], on_error: OnError, limits: TeamLimits | None, options: AgentOptions[StateT]
    ) -> None:
        super().__init__(**options)
        self.members: tuple[Member, ...] = tuple(members)
        """The members, in order."""
        names = [member.name for member in members]
        if not names:
            raise UsageError("a team needs at least one member")
        if len({member.key for member in members}) < len(names):
            raise UsageError(
                f"a team needs members with different names, not {names!r}; use agent_id= or Member(agent, name)"
            )
        if JOURNAL in names:
            raise UsageError(f"{JOURNAL!r} is not a name for a member: the state has the team's own notes there")
        if cast("str", on_error) not in ("raise", "continue"):
            raise UsageError(f"on_error is 'raise' or 'continue', not {on_error!r}")
        self._on_error: OnError = on_error
        self._limits = TeamLimits() if limits is None else limits
        check_limits(self._limits)

    def run(self, input: RunAgentInput) -> TeamSource:
        """Run the team once.

        Args:
            input: The input of the run.

        Returns:
            Its events.
        """
        run_input = as_run_input(input)

        async def work(source: TeamSource) -> None:
            """Lead the members."""
            await Team(source, run_input, self.members, self._on_error, self._limits).play(self._lead)

        return TeamSource(work)

    def is_of_member(self, message: Message) -> bool:
        """Return whether a message of the conversation belongs to a member, by its id and its owner."""
        return owner_key(message, {member.key for member in self.members}) is not None

    def set_state(self, state: Any) -> None:
        """Replace the state, as any agent's, apart from the team's own notes about a run that has not finished.

        A team whose conversation is saved takes such notes from nobody else.

        Raises:
            UsageError: It has no JSON form.
        """
        before = self.state
        super().set_state(state)
        after = self.state
        if is_object(after) and (self._save is not None or (is_object(before) and JOURNAL in before)):
            super().set_state(with_journal_of(before, after))

    async def _lead(self, team: Team) -> Any:
        raise NotImplementedError


@lists_keywords(AgentOptions)
class _ListedTeam(_TeamBase[StateT]):
    """A team whose members are listed in order, and named by themselves."""

    def __init__(
        self,
        *members: AbstractAgent | Member,
        on_error: OnError = "raise",
        limits: TeamLimits | None = None,
        **options: Unpack[AgentOptions[StateT]],
    ) -> None:
        super().__init__(
            [as_member(each, place=place) for place, each in enumerate(members)], on_error, limits, options
        )


@lists_keywords(AgentOptions)
class SequentialAgent(_ListedTeam[StateT]):
    """Members that work one after the other; the last one speaks for the team.

    Args:
        members: The agents, or `Member(agent, ...)`.
        on_error: "raise" ends the run with the first member that fails, "continue" calls the next one.
        limits: The limits of a run.
        options: See `AgentOptions`.
    """

    async def _lead(self, team: Team) -> None:
        for member in self.members:
            await team.run(member, speaks=member is self.members[-1])


@lists_keywords(AgentOptions)
class ParallelAgent(_ListedTeam[StateT]):
    """Members that work side by side, their events interleaved as they happen.

    Args:
        members: The agents, or `Member(agent, ...)`.
        then: The agent that sees all replies, and speaks for the team; without one the members' replies are theirs.
        on_error: "raise" cancels the others when one fails, and ends the run; "continue" leaves it out.
        limits: The limits of a run.
        options: See `AgentOptions`.
    """

    def __init__(
        self,
        *members: AbstractAgent | Member,
        then: AbstractAgent | Member | None = None,
        on_error: OnError = "raise",
        limits: TeamLimits | None = None,
        **options: Unpack[AgentOptions[StateT]],
    ) -> None:
        last = () if then is None else (then,)
        super().__init__(*members, *last, on_error=on_error, limits=limits, **options)
        self._then = None if then is None else self.members[-1]

    async def _lead(self, team: Team) -> None:
        await team.gather(*(member for member in self.members if member is not self._then))
        if self._then is not None:
            await team.run(self._then, speaks=True)


class RouterAgent(_TeamBase[StateT]):
    """Members of which a function chooses one for each run, which speaks for the team.

    Args:
        choose: A function of the `RunAgentInput`, sync or async, that returns the name of a member.
        on_error: "raise" ends the run when the member fails, "continue" lets it end without a reply.
        limits: The limits of a run.
        options: The members by their names.
    """

    def __init__(
        self,
        choose: Choice,
        /,
        *,
        on_error: OnError = "raise",
        limits: TeamLimits | None = None,
        options: AgentOptions[StateT] | None = None,
        **members: AbstractAgent | Member,
    ) -> None:
        if not callable(choose):
            raise UsageError(f"a RouterAgent needs a function that chooses, not {choose!r}")
        super().__init__([as_member(each, name) for name, each in members.items()], on_error, limits, options or {})
        self._choose = choose

    async def _lead(self, team: Team) -> None:
        chosen = await team.once(lambda: self._choose(team.input))
        await team.run(cast("str", chosen), speaks=True)


@lists_keywords(AgentOptions)
class HandoffAgent(_ListedTeam[StateT]):
    """Members of which one speaks with the user at a time, and hands over to another by calling `transfer_to_<name>`.

    The member that spoke last begins the next run.

    Args:
        members: The agents, or `Member(agent, ...)`; the first one begins.
        on_error: "raise" ends the run when a member fails, "continue" lets it end without a reply.
        limits: The limits of a run.
        handovers: The way in which each member takes over, by its name.
        options: See `AgentOptions`.
    """

    def __init__(
        self,
        *members: AbstractAgent | Member,
        handovers: Mapping[str, Handover] | None = None,
        on_error: OnError = "raise",
        limits: TeamLimits | None = None,
        **options: Unpack[AgentOptions[StateT]],
    ) -> None:
        super().__init__(*members, on_error=on_error, limits=limits, **options)
        self._handovers = dict(handovers or {})
        check_handovers(self._handovers, self.members)

    async def _lead(self, team: Team) -> None:
        by_key = {member.key: member for member in self.members}
        keys = [owner_key(each, by_key) for each in reversed(team.messages) if each.role == "assistant"]
        first = await team.once(lambda: next((by_key[key].name for key in keys if key), self.members[0].name))
        current = next(member for member in self.members if member.name == first)
        taken = {tool.name for tool in team.input.tools or ()}
        prompt, sees = None, None
        for _ in range(self._limits.handovers + 1):
            others = {transfer_name(member, taken): member for member in self.members if member is not current}
            tools = [
                (transfer_tool(name, member, self._handover_to(member)), f"Handed over to {member.name}.")
                for name, member in others.items()
            ]
            call = team.called(current, prompt, speaks=True, tools=tools, sees=sees)
            await team.make(call)
            if not call.chosen:
                return
            chosen = call.chosen[0]
            before, current = current, others[chosen.name]
            handover = self._handover_to(current)
            prompt = None if handover.arguments is None else f"[{before.name}]: {chosen.arguments}"
            sees = handover.sees or current.sees or "all"
        most = self._limits.handovers
        raise TeamLimitError(f"the members handed over more than {most} times; see TeamLimits(handovers=...)")

    def _handover_to(self, member: Member) -> Handover:
        return self._handovers.get(member.name) or Handover()


@lists_keywords(AgentOptions)
class LoopAgent(_ListedTeam[StateT]):
    """Members that work one after the other, again and again, until a function says that it is enough.

        LoopAgent(writer, critic, until=lambda draft, verdict: "good" in verdict.text)

    The first member speaks for the team, so that its last words are the reply.

    Args:
        members: The agents, or `Member(agent, ...)`.
        until: A function, sync or async, of the `SubagentResult`s of a round, one for each member; a true value ends
            the loop.
        rounds: The largest number of rounds; the run ends after the last one, whatever the function says.
        on_error: "raise" ends the run with the first member that fails, "continue" calls the next one.
        limits: The limits of a run.
        options: See `AgentOptions`.
    """

    def __init__(
        self,
        *members: AbstractAgent | Member,
        until: Callable[..., object],
        rounds: int = 5,
        on_error: OnError = "raise",
        limits: TeamLimits | None = None,
        **options: Unpack[AgentOptions[StateT]],
    ) -> None:
        super().__init__(*members, on_error=on_error, limits=limits, **options)
        if not callable(until):
            raise UsageError(f"a LoopAgent needs a function that ends it, until=..., not {until!r}")
        check_number("LoopAgent(rounds=...)", rounds, least=1, is_whole=True)
        self._until, self._rounds = until, rounds

    async def _lead(self, team: Team) -> None:
        for _ in range(self._rounds):
            results = [await team.run(each, speaks=each is self.members[0]) for each in self.members]

            async def is_enough(results: list[SubagentResult] = results) -> bool:
                """Ask the function."""
                answer = self._until(*results)
                return bool(await answer if inspect.isawaitable(answer) else answer)

            if await team.once(is_enough):
                return


class TeamAgent(_TeamBase[StateT]):
    """Members that a function leads.

        async def plan_trip(team: Team) -> None:
            asked = (airline, "flights to Oslo"), (booking, "a hotel in Oslo")
            flights, hotels = await team.gather(*asked)
            await team.say(f"{flights.text} {hotels.text}")

        TeamAgent(plan_trip, airline=airline, booking=booking)

    When a member waits for an answer, or a run fails, a later run resumes: the function is called again, calls of
    members that are over return what they returned before, and failures that it caught are raised again, as
    `RunFailedError`. So it should do nothing else that must not happen twice, or do it with `team.once(...)`.

    Args:
        lead: The function; what it returns is the run's result.
        on_error: "raise" raises the failure of a member in the function, "continue" returns it with the result.
        limits: The limits of a run.
        options: The options of the agent; see `AgentOptions`.
        members: The members by their names.
    """

    def __init__(
        self,
        lead: Lead,
        /,
        *,
        on_error: OnError = "raise",
        limits: TeamLimits | None = None,
        options: AgentOptions[StateT] | None = None,
        **members: AbstractAgent | Member,
    ) -> None:
        if not inspect.iscoroutinefunction(lead):
            raise UsageError(f"a TeamAgent is led by an `async def` function of a Team, not by {lead!r}")
        super().__init__([as_member(each, name) for name, each in members.items()], on_error, limits, options or {})
        self._function = lead

    async def _lead(self, team: Team) -> Any:
        return await self._function(team)
