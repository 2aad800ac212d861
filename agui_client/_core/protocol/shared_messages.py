"""Messages that an agent in this process shares with the conversation, until it looks at them.

A turn of a long thread costs what is new in it: messages are never changed, only succeeded by others, so an agent may
have the same objects. It gets a copy of each message that it looks at, as it may write into that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any, SupportsIndex, cast
from weakref import ref

if TYPE_CHECKING:
    from ag_ui.core import Message

_PLAIN = {str, type(None)}
"""The types of members that a copy may share."""
_OTHERS = (
    *("__add__", "__delitem__", "__imul__", "__mul__", "__rmul__", "__setitem__"),
    *("clear", "copy", "insert", "pop", "remove", "reverse", "sort"),
)
"""The methods of lists for which the agent needs all messages as its own."""


class SharedMessages(list["Message"]):
    """A list whose messages are copied when they are looked at.

    Args:
        messages: The messages, which stay as they are.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        super().__init__(messages)
        # By position; those that the agent appends lie behind.
        self._is_own = bytearray(len(self))

    def _take(self, index: int) -> Message:
        """Return the message at a position, which is the agent's own from now on."""
        if index < len(self._is_own) and not self._is_own[index]:
            super().__setitem__(index, _copied(super().__getitem__(index)))
            self._is_own[index] = True
        return super().__getitem__(index)

    def take_all(self) -> None:
        """Make all messages the agent's own."""
        for index in range(len(self._is_own)):
            self._take(index)
        self._is_own = bytearray()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._take(each) for each in range(*index.indices(len(self)))]
        at: int = cast("SupportsIndex", index).__index__()
        at += len(self) if at < 0 else 0
        if not 0 <= at < len(self):
            raise IndexError("list index out of range")
        return self._take(at)

    def __iter__(self) -> Iterator[Message]:
        index = 0
        while index < len(self):
            yield self._take(index)
            index += 1

    def __reversed__(self) -> Iterator[Message]:
        return iter(self[::-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def _own_first(name: str) -> Callable[..., Any]:
    """Return a method of lists that has all messages copied before."""
    method = getattr(list, name)

    def call(messages: SharedMessages, *arguments: Any, **options: Any) -> Any:
        """Copy all, and do what the method of lists does."""
        messages.take_all()
        return method(messages, *arguments, **options)

    return call


for _name in _OTHERS:
    setattr(SharedMessages, _name, _own_first(_name))


def _copied(message: Message) -> Message:
    is_plain = _PLAIN.issuperset(map(type, message.__dict__.values()))
    return message.model_copy(deep=not is_plain)


class _Known(ref[Any]):
    """A reference to a message that conforms, by whose end it is forgotten."""

    __slots__ = ("key",)
    key: int


_known: dict[int, _Known] = {}
"""The messages that were found to conform, by their identities: a model cannot say so itself."""


def unknown_messages(messages: Sequence[Message]) -> list[Message]:
    """Return the messages of which it is not known whether they conform."""
    # Without a loop of Python, as nearly all messages of a long thread are known.
    return list(compress(messages, map(not_, map(_known.__contains__, map(id, messages)))))


def note_conforming(messages: Iterable[Message]) -> None:
    """Note that messages conform."""
    for each in messages:
        known = _Known(each, _forget)
        known.key = id(each)
        _known[known.key] = known


def _forget(known: _Known) -> None:
    _known.pop(known.key, None)
