"""The conversation of a team as each of its members is shown it.

What others said is written once in a run, and not for each call of each member: a call adds what is new since the last.

To change

- what a member is shown and asked: `TeamTranscript` here, which writes what others said once in a run of the team;
  `MemberInput` in `teams/_member_input.py` makes the input of a call of it. `tests/teams/test_costs.py` counts what a
  call costs after many others
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ag_ui.core import AssistantMessage, Message, ToolMessage, UserMessage

from agui_client.teams._event_forwarder import is_partial
from agui_client.teams._id_scope import IdMap, changed, is_said_by_team, owner_key, speakers
from agui_client.teams._members import Member, Sees

_TEAM = "team"
"""The name under which a member is shown what the function that leads the team has said."""


class Shown(NamedTuple):
    """The conversation that a member is shown."""

    messages: list[Message]
    """The messages, as the member knows them."""
    own: list[Message]
    """Those that are the member's own, as the team's conversation has them."""
    foreign: frozenset[str]
    """The ids of those that are not the member's own, as the member knows them."""


class TeamTranscript:
    """A team's conversation, with each message as the members are shown it that have not written it.

    Args:
        names: The names of those who speak in the conversation, as `names_below` returns them.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._begin()

    def _begin(self) -> None:
        self._messages = list[Message]()
        # Each message as others are shown it; None for one that they are not shown.
        self._said = list[Message | None]()
        # The places of the messages of each conversation of a member, by the prefix of its ids.
        self._places = defaultdict[str, list[int]](list)
        self._begin_turn()

    def _begin_turn(self) -> None:
        # The paths of keys of the members that have spoken since the last prompt, and the places of what the members of
        # each team said, by the path of the team: there may be hundreds.
        self._spoken = set[tuple[str, ...]]()
        self._below = defaultdict[tuple[str, ...], list[int]](list)

    def shown(self, messages: Sequence[Message], ids: IdMap, sees: Sees | None) -> Shown:
        """Return what a member is shown.

        Args:
            messages: The team's conversation.
            ids: The ids of the invocation.
            sees: The part of what others said that it is shown; None for nothing.
        """
        self._read(messages)
        places = self._places.get(ids.prefix, ())
        above = [messages[at] for at in places]
        own = [ids.message_down(each) for each in above]
        if sees is None:
            return Shown(own, above, frozenset())
        others = self._said.copy()
        for at in places:
            others[at] = None
        taken, other_ids = {each.id for each in own}, {each.id for each in others if each is not None}
        if not taken.isdisjoint(other_ids):
            # An id of the caller's may be one that the member has made, too.
            others = [None if each is None else changed(each, id=_new_id(each.id, taken)) for each in others]
        chosen: Sequence[Message] = [each for each in others if each is not None]
        if sees == "last":
            chosen = chosen[-1:]
        elif callable(sees):
            chosen = list(sees(chosen))
        by_id = {each.id: each for each in chosen}
        foreign = frozenset(by_id)
        if sees != "all":
            others = [None if each is None else by_id.pop(each.id, None) for each in others]
        for at, each in zip(places, own, strict=True):
            others[at] = each
        found = [each for each in others if each is not None]
        return Shown([*found, *(() if sees == "all" else by_id.values())], above, foreign)

    def _read(self, messages: Sequence[Message]) -> None:
        """Read what is new in the conversation; all of it if a message was changed or removed."""
        known = len(self._messages)
        # Compiled, and nearly all are the same objects.
        if messages[:known] != self._messages:
            self._begin()
            known = 0
        for message in messages[known:]:
            self._add(message)

    def _add(self, message: Message) -> None:
        at, key = len(self._messages), owner_key(message, self._names)
        if key is None and message.role == "user":
            self._begin_turn()
        self._messages.append(message)
        self._said.append(self._as_said(message, key, at))
        item_ids = [message.id, message.tool_call_id] if isinstance(message, ToolMessage) else [message.id]
        for prefix in {each[: each.find("/") + 1] for each in item_ids} - {""}:
            self._places[prefix].append(at)

    def _as_said(self, message: Message, key: str | None, at: int) -> Message | None:
        """Return a message as members are shown it that have not written it; None for one that they are not shown.

        What the team and its other members said stands there as words of the user: models take an assistant's words for
        their own, and have nothing to answer if a conversation ends with them.
        """
        if key is None and not is_said_by_team(message):
            is_own_affair = message.subagent_run_id is not None or message.role in ("activity", "reasoning")
            # What the team around this one shows may have the id of a message that this one shows.
            return None if is_own_affair else changed(message, id=f"^{message.id}") if ":" in message.id else message
        if not isinstance(message, AssistantMessage) or not (key is None or message.content):
            return None
        name = _TEAM
        if key is not None:
            path = tuple(speakers(message))
            name = _name_of(path, self._names)
            if not self._is_shown(path, at):
                return None
        if is_partial(message):
            name += ", cut off by a failure"
        # A team has members of its own, and may not take this for a message of one of them.
        return UserMessage(id=message.id.replace("/", ":"), content=f"[{name}]: {message.content}")

    def _is_shown(self, path: tuple[str, ...], at: int) -> bool:
        """Note what a member said, and return whether the others are shown it.

        Of a team, they are shown what the member said that speaks for it. Where none does, as in a team of members side
        by side, they are shown what each of them said.

        Args:
            path: The keys of the teams around the member, and its own.
            at: The place of the message.
        """
        self._spoken.add(path)
        for place in self._below.pop(path, ()):
            self._said[place] = None
        teams = [path[:size] for size in range(1, len(path))]
        if not self._spoken.isdisjoint(teams):
            return False
        for team in teams:
            self._below[team].append(at)
        return True


def _name_of(keys: Sequence[str], names: Mapping[str, str]) -> str:
    """Return the name of the member that has said something, behind those of the teams around it."""
    for size in range(len(keys), 0, -1):
        if (name := names.get("/".join(keys[:size]))) is not None:
            return "/".join([name, *keys[size:]])
    return "/".join(keys)


def names_below(members: Iterable[Member]) -> dict[str, str]:
    """Return the names of members by their keys, and those of the members of teams here by the paths of keys."""
    found: dict[str, str] = {}
    for member in members:
        found[member.key] = member.name
        below = names_below(getattr(member.agent, "members", ()) if member.agent.is_team else ())
        found |= {f"{member.key}/{path}": f"{member.name}/{name}" for path, name in below.items()}
    return found


def _new_id(item_id: str, taken: Collection[str]) -> str:
    while item_id in taken:
        item_id += "~"
    return item_id
