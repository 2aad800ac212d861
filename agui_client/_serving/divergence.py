"""The place to which a stored thread goes back when a caller's input leaves it, as an edit or a regeneration does.

Ids of user, assistant and tool messages are compared. An input that is a beginning of the thread and then something
else, or nothing else, leaves the thread there; one that knows less from the start, such as a window, continues with it.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from agui_client._core.protocol.message_text import content_text
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ag_ui.core import Message

OnDivergence: TypeAlias = Literal["append", "rewind", "refuse"]
"""Says what becomes of an input that leaves the stored thread."""

COMPARED = frozenset({"user", "assistant", "tool"})
"""The roles of the messages that are compared."""
_Keyed: TypeAlias = "tuple[tuple[str, ...], Message]"
_OF_THE_ANSWER, _OF_THE_THREAD = frozenset({"reasoning", "activity"}), frozenset({"system", "developer"})


def check_on_divergence(value: object) -> None:
    """Check a value of `on_divergence=`.

    Raises:
        UsageError: There is no such choice.
    """
    if value not in ("append", "rewind", "refuse"):
        raise UsageError(f'on_divergence= is "append", "rewind" or "refuse", not {value!r}')


def common_count(stored: Sequence[Message], sent: Sequence[Message]) -> int:
    """Return the number of compared messages with which both begin.

    Args:
        stored: The messages of a thread.
        sent: The messages of the input.
    """
    ours, theirs = _keyed(stored), _keyed(sent)
    return _common(_ordered(ours, theirs), _ordered(theirs, ours))


def may_be_of_branch(stored: Sequence[Message], sent: Sequence[Message]) -> bool:
    """Return whether an input, behind what it has in common with a thread, has answers that a branch may have.

    One that begins later than the thread does, such as a window, continues with the thread.

    Args:
        stored: The messages of the thread.
        sent: The messages of the input.
    """
    ours, theirs = _keyed(stored), _keyed(sent)
    ours, theirs = _ordered(ours, theirs), _ordered(theirs, ours)
    common = _common(ours, theirs)
    if not common and theirs and any(theirs[0][0] == key for key, _ in ours[1:]):
        return False
    return any(each.role == "assistant" for _, each in theirs[common:])


def kept_count(stored: Sequence[Message], sent: Sequence[Message], open_call_ids: Collection[str]) -> int | None:
    """Return the number of stored messages that an input continues with; None if it does not leave the thread.

    Args:
        stored: The messages of the thread.
        sent: The messages of the input.
        open_call_ids: The ids of the calls without a result, to which the input may bring one.
    """
    ours, theirs = _keyed(stored), _keyed(sent)
    ours, theirs = _ordered(ours, theirs), _ordered(theirs, ours)
    common = _common(ours, theirs)
    left, rest = {key for key, _ in ours[common:]}, theirs[common:]
    is_edited = bool(left and rest) and rest[0][0] == ours[common][0]
    if not left or not (common or is_edited):
        return None
    if any(key in left for key, _ in rest[is_edited:]):
        return None  # it has later messages of the thread, and only lacks some between
    if any(each.role == "tool" and each.tool_call_id in open_call_ids for _, each in rest):
        return None
    messages = [each for _, each in ours]
    return _end_of_turn(stored, messages, _before_split_calls(messages, common))


def _keyed(messages: Sequence[Message]) -> list[_Keyed]:
    """Return the messages that are compared, each behind what identifies it.

    A page may name the result of a call as it likes, and servers use ids of calls again: a result is known by its call,
    and the call by the message that makes it.
    """
    keyed: list[_Keyed] = []
    callers: dict[str, str] = {}
    for each in messages:
        if each.role == "assistant":
            callers |= dict.fromkeys((call.id for call in each.tool_calls or ()), each.id)
        if each.role == "tool":
            keyed.append(((each.role, each.tool_call_id, callers.get(each.tool_call_id, "")), each))
        elif each.role in COMPARED:
            keyed.append(((each.role, each.id), each))
    return keyed


def _ordered(messages: Sequence[_Keyed], others: Sequence[_Keyed]) -> list[_Keyed]:
    """Return messages with results side by side in one order: first those that both sides have."""
    there = {key for key, _ in others}
    # A message that is not a result is a group by itself.
    groups = groupby(messages, lambda keyed: keyed[1].role == "tool" or keyed[1].id)
    return [each for _, group in groups for each in sorted(group, key=lambda keyed: (keyed[0] not in there, keyed[0]))]


def _common(ours: Sequence[_Keyed], theirs: Sequence[_Keyed]) -> int:
    """Return the number of messages with which both begin, in their order."""
    common = next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if not _is_same(*pair)), None)
    return min(len(ours), len(theirs)) if common is None else common


def _is_same(one: _Keyed, other: _Keyed) -> bool:
    """Return whether two messages are the same; the text of a user's message may be edited under its id."""
    (key, ours), (other_key, theirs) = one, other
    if key != other_key:
        return False
    return ours.role != "user" or theirs.role != "user" or content_text(ours.content) == content_text(theirs.content)


def _before_split_calls(ours: Sequence[Message], count: int) -> int:
    """Return a number of messages, at most the one given, behind which no result of an earlier call stands."""
    callers: dict[str, int] = {}
    places: list[tuple[int, int]] = []
    for at, message in enumerate(ours):
        if message.role == "assistant":
            callers |= {call.id: at for call in message.tool_calls or ()}
        elif message.role == "tool" and message.tool_call_id in callers:
            places.append((callers[message.tool_call_id], at))
    for caller, at in reversed(places):
        if caller < count <= at:
            count = caller
    return count


def _end_of_turn(stored: Sequence[Message], ours: Sequence[Message], count: int) -> int:
    """Return the number of stored messages with the first ones of those that are compared, and what belongs to them."""
    kept, following = {each.id for each in ours[:count]}, ours[count]
    end = max((at for at, each in enumerate(stored, 1) if each.role in COMPARED and each.id in kept), default=0)
    belonging = _OF_THE_THREAD if not count else _OF_THE_ANSWER if following.role == "user" else ()
    while stored[end].role in belonging:
        end += 1
    return end
