"""History: the part of a conversation that a run sends (`history=`); what is stored stays whole.

A cut is made only where no tool call is parted from a result of it, and no reasoning from what it led to. The system
and developer messages at the beginning are always sent.

To change

- what a run sends of the conversation: this module; `Run.choose_messages` calls it before each run,
  `Conversation.unreceived` knows what is new, and `Thread.note_sent` what a MESSAGES_SNAPSHOT cannot drop
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise, takewhile
from typing import Any, Literal, TypeAlias

from ag_ui.core import Message

from agui_client._core.ground.concurrency import call_aside
from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.prompts import MessageLike, as_messages
from agui_client.errors import AGUIError, HistoryError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Record):
    """The end of a conversation: as many messages as all given limits allow, from the beginning of a turn on.

    A turn is a user's message and everything up to the next one. If the last turn alone is too large, its user's
    message is sent with as much of the turn's end as fits, and at least with the last message. The system and developer
    messages at the beginning of the conversation are always sent, and count.

    Raises:
        UsageError: There is no limit, one is not a positive whole number, or there is no function that counts tokens.
    """

    turns: int | None = None
    """The most turns; None for no limit."""
    messages: int | None = None
    """The most messages; None for no limit."""
    tokens: int | None = None
    """The most tokens, as `count` counts them; None for no limit."""
    count: Callable[[Message], float] | None = None
    """Returns the tokens of a message; needed with `tokens`."""

    def __post_init__(self) -> None:
        limits = {"turns": self.turns, "messages": self.messages, "tokens": self.tokens}
        for name, limit in limits.items():
            if limit is not None and (type(limit) is not int or limit < 1):
                raise UsageError(f"Window({name}=...) takes a positive whole number, not {limit!r}")
        if set(limits.values()) == {None}:
            raise UsageError("a Window needs a limit, such as Window(turns=20)")
        if self.tokens is not None and not callable(self.count):
            raise UsageError(f"Window(tokens=...) needs count=, a function of a message, not {self.count!r}")

    def of(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages inside the window.

        Args:
            messages: A conversation. Its activity messages are left out: they are never sent.
        """
        head, blocks = _split([message for message in messages if message.role != "activity"])
        begins_turn = [index for index, block in enumerate(blocks) if block[0].role == "user"]
        last = len(blocks) - 1
        if last < 0:
            return head
        opening = begins_turn[-1] if begins_turn else last
        earliest = begins_turn[-self.turns] if self.turns and len(begins_turn) > self.turns else 0
        messages_left, tokens_left = self.messages or math.inf, self.tokens or math.inf

        def take(block: Sequence[Message]) -> bool:
            """Subtract some messages from what is left; return whether there was enough."""
            nonlocal messages_left, tokens_left
            messages_left -= len(block)
            tokens_left -= sum(map(self.count, block)) if self.tokens and self.count else 0
            return messages_left >= 0 and tokens_left >= 0

        take(head)
        take(blocks[opening])
        start = last + 1
        while start > earliest and (start - 1 == opening or take(blocks[start - 1])):
            start -= 1
        start = min(start, last)
        if start > opening:
            return [*head, *blocks[opening], *chain(*blocks[start:])]
        if start > 0:
            start = next((index for index in begins_turn if index >= start), start)
        return [*head, *chain(*blocks[start:])]


HistoryFunction: TypeAlias = "Callable[[list[Message]], Iterable[MessageLike] | Awaitable[Iterable[MessageLike]]]"
"""Returns the messages to send for those of the conversation, sync or async; it may summarize."""
History: TypeAlias = "Literal['full', 'new'] | Window | HistoryFunction"
"""The part of the conversation that a run sends: all of it, what is new since the last finished run, its end, or the
messages that a function returns."""


def check_history(history: object) -> None:
    """Check the value of `history=`.

    Raises:
        UsageError: It is none of those that it takes.
    """
    is_class = isinstance(history, type)
    if history not in ("full", "new") and (is_class or not (isinstance(history, Window) or callable(history))):
        takes = '"full", "new", a Window such as Window(turns=20), or a function of the messages'
        raise UsageError(f"history= takes {takes}, not {history!r}")


async def chosen_messages(
    history: History, messages: list[Message], unreceived: Collection[str] | None
) -> list[Message]:
    """Choose the messages that a run sends.

    Args:
        history: The value of `history=`.
        messages: The conversation.
        unreceived: The ids of the messages that the agent does not have from runs that finished; None if it may lack
            any.

    Returns:
        The messages to send, in order.

    Raises:
        HistoryError: The function failed, or what it returned cannot be sent.
    """
    if history == "full" or (history == "new" and unreceived is None):
        return messages
    if history == "new":
        return _new(messages, unreceived or ())
    try:
        if isinstance(history, Window):
            return history.of(messages)
        returned: Any = await call_aside(partial(history, list(messages)), "history")
        chosen = as_messages(returned)
    except Exception as error:
        what = str(error) if isinstance(error, AGUIError) else f"{type(error).__name__}: {error}"
        raise HistoryError(f"the function of history= failed: {what}; nothing was sent") from error
    _check_whole(chosen, messages)
    return chosen


def _split(messages: Sequence[Message]) -> tuple[list[Message], list[Sequence[Message]]]:
    """Split a conversation into the instructions at its beginning, and blocks that are sent whole or not at all."""
    head = [*takewhile(lambda message: message.role in ("system", "developer"), messages)]
    rest = messages[len(head) :]
    starts: list[int] = []
    first_mention: dict[str, int] = {}
    answered: set[str] = set()
    for index, message in enumerate(rest):
        if message.role == "tool":
            answered.add(message.tool_call_id)
        else:  # an id that comes again after a result is another call's
            for each in answered.intersection(_call_ids(message)):
                answered.discard(each)
                first_mention[each] = index
        first = min([index, *(first_mention.setdefault(each, index) for each in _call_ids(message))])
        if index and rest[index - 1].role == "reasoning" and message.role in ("assistant", "reasoning", "tool"):
            first = min(first, index - 1)
        while starts and starts[-1] > first:
            starts.pop()
        if first == index:
            starts.append(index)
    return head, [rest[start:end] for start, end in pairwise([*starts, len(rest)])]


def _call_ids(message: Message) -> list[str]:
    """Return the ids of the tool calls that a message makes or brings the result of."""
    if message.role == "tool":
        return [message.tool_call_id]
    return [call.id for call in message.tool_calls or ()] if message.role == "assistant" else []


def _new(messages: Sequence[Message], unreceived: Collection[str]) -> list[Message]:
    """Return the instructions, and the blocks with a new message or with a call that waits for its result."""
    head, blocks = _split(messages)
    waiting, _ = _unpaired(messages)
    wanted = {*unreceived, *waiting}
    return [*head, *chain(*(block for block in blocks if not wanted.isdisjoint(_ids(block))))]


def _ids(block: Iterable[Message]) -> set[str]:
    return {each for message in block for each in (message.id, *_call_ids(message))}


def _unpaired(messages: Iterable[Message]) -> tuple[set[str], set[str]]:
    """Return the ids of the calls without a later result, and of the results without an earlier call."""
    calls, results, called = set[str](), set[str](), set[str]()
    for message in messages:
        ids = _call_ids(message)
        if message.role == "tool":
            calls.difference_update(ids)
            results.update(each for each in ids if each not in called)
        else:
            calls.update(ids)
            called.update(ids)
    return calls, results


def _check_whole(chosen: Iterable[Message], messages: Iterable[Message]) -> None:
    """Check that the function of `history=` parted no call from its result.

    Raises:
        HistoryError: It did.
    """
    calls, results = _unpaired(chosen)
    if parted := (calls | results).difference(*_unpaired(messages)):
        first = min(parted)
        what = "tool call {} without its result" if first in calls else "a result of tool call {} without that call"
        returned = f"the function of history= returned {what.format(quoted(first))}"
        raise HistoryError(f"{returned}; return both or neither; nothing was sent")
