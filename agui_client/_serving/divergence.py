"""The place to which a stored thread goes back when a caller's input leaves it, as an edit or a regeneration does.

Ids of user, assistant and tool messages are compared. An input that is a beginning of the thread and then something
else, or nothing else, leaves the thread there; one that knows less from the start, such as a window, goes on with it.
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
_OF_THE_ANSWER, _OF_THE_THREAD = frozenset({"reasoning", "activity"}), frozenset({"system", "developer"})


def check_on_divergence(value: object) -> None:
    """Check a value of `on_divergence=`.

    Raises:
        UsageError: There is no such choice.
    """
    if value not in ("append", "rewind", "refuse"):
        raise UsageError(f'on_divergence= is "append", "rewind" or "refuse", not {value!r}')


def kept_count(stored: Sequence[Message], sent: Sequence[Message], open_call_ids: Collection[str]) -> int | None:
    """Return the number of stored messages that an input goes on with; None if it does not leave the thread.

    Args:
        stored: The messages of the thread.
        sent: The messages of the input.
        open_call_ids: The ids of the calls without a result, to which the input may bring one.
    """
    ours, theirs = _compared(stored, sent), _compared(sent, stored)
    common = next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if not _is_same(*pair)), None)
    common = min(len(ours), len(theirs)) if common is None else common
    left, rest = {_key(each) for each in ours[common:]}, theirs[common:]
    is_edited = bool(left and rest) and _key(rest[0]) == _key(ours[common])
    if not left or not (common or is_edited):
        return None
    if any(_key(each) in left for each in rest[is_edited:]):
        return None  # it has later messages of the thread, and only lacks some between
    if any(each.role == "tool" and each.tool_call_id in open_call_ids for each in rest):
        return None
    return _end_of_turn(stored, ours, _before_split_calls(ours, common))


def _compared(messages: Sequence[Message], others: Sequence[Message]) -> list[Message]:
    """Return the messages that are compared; of results side by side first those that both sides have, in one order."""
    there = {_key(each) for each in others}
    compared = [each for each in messages if each.role in COMPARED]
    # A message that is no result is a group by itself.
    groups = groupby(compared, lambda each: each.role == "tool" or each.id)
    ordered = (sorted(group, key=lambda each: (_key(each) not in there, _key(each))) for _, group in groups)
    return [each for group in ordered for each in group]


def _key(message: Message) -> tuple[str, str]:
    """Return what identifies a message: a page may name the result of a call as it likes."""
    return message.role, message.tool_call_id if message.role == "tool" else message.id


def _is_same(one: Message, other: Message) -> bool:
    """Return whether two messages are the same; the text of a user's message may be edited under its id."""
    if _key(one) != _key(other):
        return False
    return one.role != "user" or other.role != "user" or content_text(one.content) == content_text(other.content)


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
