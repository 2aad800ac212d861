"""Members of a team, and the part of the team's state, context and tools that each of them gets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ag_ui.core import Context, Message, RunAgentInput, Tool
from pydantic_core import to_json

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.type_adapters import type_adapter
from agui_client._core.protocol.schema import is_a, is_object, is_text
from agui_client._core.run.subagents import without_journal
from agui_client._core.tools.toolset import listed_names
from agui_client._core.transport.timeouts import check_number, check_seconds
from agui_client.errors import UsageError
from agui_client.teams._event_forwarder import StatePolicy
from agui_client.teams._id_scope import key_of

if TYPE_CHECKING:
    from agui_client._core.run.scope import RunScope

Sees: TypeAlias = "Literal['all', 'last'] | Callable[[Sequence[Message]], Iterable[Message]]"
"""The part of the conversation outside its own that a member is shown."""
Memory: TypeAlias = Literal["thread", "call"]
"""The span that a member remembers its own messages for: the team's thread, or one call."""
OnError: TypeAlias = Literal["raise", "continue"]
"""The treatment of a member that fails: the team's run fails, or continues without it."""


@dataclass(frozen=True, slots=True)
class Member(Record):
    """An agent in a team, with how it takes part."""

    agent: AbstractAgent
    """The agent: remote or local, a team included. It is left as it is; its runs are those of clones."""
    name: str = ""
    """The name in the team; the agent's id if left out."""
    sees: Sees | None = None
    """The messages that the member is shown besides its own: "all" that the user and the other members wrote, only the
    "last" of these, or those that a function chooses. If left out: all, and none where the member gets a prompt."""
    memory: Memory = "thread"
    """The span that the member remembers its own messages for: the "thread" of the team, or one "call"."""
    state: StatePolicy = "nested"
    """The place of the member's state: "nested" under its name in the team's state, "shared" with the team, or
    "dropped"."""
    tools: Literal["all"] | Collection[str] = "all"
    """The tools of the team's caller that the member may call, by name."""
    on_error: OnError | None = None
    """The treatment of a failure: "raise" fails the run, "continue" ignores it; the team's choice if left out."""
    timeout: float | None = None
    """The longest time that one attempt of the member may take, in seconds, those aside in which a person is asked;
    None for any."""
    retries: int = 0
    """The number of further attempts if the member fails; each resumes after the last result of a tool."""
    answer: Any = None
    """The type of its reply, any that pydantic can validate: the member is sent the schema, and asked again once if
    its reply does not fit. `parsed` of the `SubagentResult` has the reply. None for any text."""

    @property
    def key(self) -> str:
        """The name in the characters that ids are made of."""
        return key_of(self.name)


def as_member(given: AbstractAgent | Member, name: str = "", place: int = 0) -> Member:
    """Return a member with a name.

    Args:
        given: The agent or the member.
        name: The name; empty for its own.
        place: The number of the member in its team, for agents without a name.

    Raises:
        UsageError: It is neither, or has a value that it cannot have.
    """
    member = given if isinstance(given, Member) else Member(given)
    if not is_a(member.agent, AbstractAgent):
        one_by_one = "; give them one by one, without a list" if is_a(member.agent, list | tuple) else ""
        raise UsageError(f"a team consists of agents, or Member(agent, ...), not of {member.agent!r}{one_by_one}")
    member = replace(member, name=name or member.name or _own_name(member.agent, place))
    _check(member)
    return member


def _check(member: Member) -> None:
    """Check the values of a member.

    Raises:
        UsageError: One of them is none that it may be.
    """
    name, tools = cast("object", member.name), cast("object", member.tools)
    if not isinstance(name, str) or not is_text(name):
        raise UsageError(f"the name of a member is a text without half characters, not {name!r}")
    about = f"Member(..., {name!r})"
    if not is_view(member.sees):
        raise UsageError(f"{about}: sees is 'all', 'last' or a function of the messages, not {member.sees!r}")
    for option, value, known in (
        ("memory", member.memory, ("thread", "call")),
        ("state", member.state, ("nested", "shared", "dropped")),
        ("on_error", member.on_error, (None, "raise", "continue")),
    ):
        if value not in known:
            raise UsageError(f"{about}: {option} is one of {known!r}, not {value!r}")
    if tools != "all" and (isinstance(tools, str | bytes) or not isinstance(tools, Collection)):
        raise UsageError(f"{about}: tools is 'all' or a list of names, not {tools!r}")
    check_seconds(f"{about}: timeout", member.timeout, may_be_none=True)
    check_number(f"{about}: retries", member.retries, least=0, is_whole=True)
    if member.answer is not None:
        type_adapter(member.answer, f"{about}: answer")
        if member.agent.is_team:
            raise UsageError(f"{about}: answer is for one agent: give it to the member that speaks for the team")


def is_view(sees: object) -> bool:
    """Return whether a value says what a member is shown."""
    return sees in (None, "all", "last") or callable(sees)


def _own_name(agent: AbstractAgent, place: int) -> str:
    return agent.name or f"{type(agent).__name__}-{place + 1}"


def member_state(state: Any, member: Member) -> Any:
    """Return the state that a member begins with."""
    if member.state == "shared":
        return without_journal(state)
    inner = state.get(member.name) if is_object(state) and member.state == "nested" else None
    # Its journal comes from the team that it is a member of, and never from a caller.
    return {} if inner is None else without_journal(inner)


def member_context(member: Member, context: Sequence[Context]) -> list[Context]:
    """Return the context of a member: the caller's, and the schema of its reply.

    Args:
        context: The context of the team's run.
    """
    if member.answer is None:
        return [*context]
    return [*context, Context(description="Answer only with JSON of this schema", value=reply_schema(member))]


def reply_schema(member: Member) -> str:
    """Return the schema of a member's reply as JSON text."""
    return to_json(type_adapter(member.answer, "answer", is_read_now=True).json_schema()).decode()


def messages_of(scope: RunScope) -> Sequence[Message]:
    """Return the messages of the conversation that a run belongs to."""
    owner = cast("AbstractAgent", scope.owner)
    return owner.messages


def member_tools(member: Member, input: RunAgentInput, further: Iterable[Tool] = ()) -> list[Tool]:
    """Return the tools of the caller that a member may call, and further ones.

    Args:
        input: The input of the team's run.
        further: Tools of the team.
    """
    taken = listed_names(member.agent.tools)
    allowed = [tool for tool in input.tools or () if member.tools == "all" or tool.name in member.tools]
    # A tool of its own is the one that the member means.
    return [tool for tool in [*allowed, *further] if tool.name not in taken]
