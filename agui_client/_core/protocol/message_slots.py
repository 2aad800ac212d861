"""The slots of messages and of their tool calls: what is streamed to one, until a look makes its model (STREAM-2).

A delta is an append to a list of strings. Models are never changed, only succeeded by a copy.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from sys import getsizeof
from typing import Any

from ag_ui.core import ContentPart, Message, TextPart, ToolCall
from pydantic_core import from_json

from agui_client._core.protocol.patch import Document, is_same_json
from agui_client._core.protocol.schema import is_object, successor

_LONG = 10_000
"""The characters from which arguments are long: restarts parse them again only after they have doubled."""
_MANY_CALLS = 16
"""The calls of a message that a set finds sooner than a walk."""


def is_same_call(one: ToolCall, other: ToolCall) -> bool:
    """Compare the names and arguments of two calls, as JSON where they are JSON."""
    if one.function == other.function:
        return True
    try:
        arguments = [from_json(each.function.arguments or "{}") for each in (one, other)]
    except ValueError:
        return False
    return one.function.name == other.function.name and is_same_json(*arguments)


class CallSlot:
    """One tool call, with the message that made it."""

    earlier: tuple[CallSlot, MessageSlot] | None = None
    """The call of the same id before this one, with its result; None for the first one."""
    ordinal = 1
    """The number of this call among those of the same id."""
    hidden: deque[CallSlot] | None = None
    """Calls of the same id in later messages, without a result between them; the id names this one."""
    may_be_restated = False
    """Whether it names the message of the call before it, so that the same arguments make it that call again."""
    changes: dict[str, Any] | None = None
    """New values of other fields than the arguments; None if there are none since the last look."""
    restarts: bool = False
    """Whether the next arguments replace the stored ones, which were whole when the call started again."""
    _read_again_at = 0
    _read: tuple[str, Any] | None = None
    """The arguments that were compared with those of another call, and their JSON."""

    def __init__(self, call: ToolCall, owner: MessageSlot, position: int) -> None:
        self.model: ToolCall = call
        """The call as it was at the last look."""
        self.owner = owner
        self.position = position
        """The number of calls that the message made before this one."""
        self.arguments: list[str] = [call.function.arguments]
        """The pieces of the argument text; more than one if there is anything new since the last look."""
        self.size: int = len(call.function.arguments)
        """The number of characters in them, known without joining them."""

    def start_again(self) -> None:
        """Have further arguments replace the stored ones if those are whole, and be appended to them otherwise."""
        # A server may restart a call any number of times: long arguments are read again when there are twice as many.
        if self.restarts or self.size < self._read_again_at:
            return
        with suppress(ValueError):
            self.restarts = is_object(from_json(self.build().function.arguments))
        self._read_again_at = 2 * self.size if self.size > _LONG else 0

    def repeats(self, earlier: CallSlot) -> bool:
        """Return whether this is another call in the same words: see `is_same_call`."""
        if self.build().function == earlier.build().function:
            return True
        try:
            is_same = is_same_json(self._arguments(), earlier._arguments())
        except ValueError:
            return False
        return is_same and self.model.function.name == earlier.model.function.name

    def _arguments(self) -> Any:
        """Return the arguments as JSON, which is read once, as any number of calls may be compared with a long one."""
        text = self.build().function.arguments
        if self._read is None or self._read[0] is not text:
            self._read = text, from_json(text or "{}")
        return self._read[1]

    def append(self, delta: str) -> None:
        """Append to the arguments, or replace them if the call has restarted."""
        if self.restarts and delta:
            self.arguments, self.size, self.restarts, self._read_again_at = [""], 0, False, 0
        self.arguments.append(delta)
        self.size += len(delta)

    def build(self) -> ToolCall:
        """Return the call as it is now; the same object until the next change."""
        if len(self.arguments) > 1:
            self.arguments = [joined(self.arguments)]
            function = successor(self.model.function, {"arguments": self.arguments[0]})
            self.changes = {**(self.changes or {}), "function": function}
        if self.changes is not None:
            self.model, self.changes = successor(self.model, self.changes), None
        return self.model


class MessageSlot:
    """One message, with its place in the thread."""

    # Defaults of the class, as a long thread has a slot for each message, and events touch few of them.
    next: MessageSlot | None = None
    """The slot of the message behind this one."""
    is_gone = False
    """Whether the message was removed; the next walk along the slots takes this one out."""
    last_result: MessageSlot | None = None
    """The last known slot of the tool results behind this message; None before the first look for them."""
    text: list[str] | None = None
    """The pieces of the text; None until something is streamed to the message."""
    parts: list[ContentPart] | None = None
    """The content parts before the streamed text; None where the content is a string."""
    document: Document | None = None
    """The content of an activity message; None until it is patched."""
    calls: list[CallSlot] | tuple[()] = ()
    """The tool calls of the message."""
    call_ids: set[str] | None = None
    """The ids of the calls, once there are many; None if they are few, or have changed since."""
    changed_calls: dict[CallSlot, None] | None = None
    """The calls that are new or have changed since the last look; None if the list of calls is to be made anew."""
    changes: dict[str, Any] | None = None
    """New values of other fields than text and tool calls; None if there are none since the last look."""

    walked: tuple[int, MessageSlot] | None = None
    """The place of the last result that was put in the order of the calls, with the position of its call."""

    def __init__(self, message: Message, index: int, key: int) -> None:
        self.index = index
        """The position in the thread's list of models when it was last looked up; others may have moved it since."""
        self.key = key
        """The number that finds it there: those of messages behind it are higher."""
        self.model = message
        """The message as it was at the last look."""
        # Roles instead of isinstance, which takes half a microsecond where a model is of another class.
        if message.role == "assistant" and message.tool_calls:
            self.calls = [CallSlot(call, self, position) for position, call in enumerate(message.tool_calls)]

    def open_text(self) -> list[str] | None:
        """Return the pieces of the text; None for tool and activity messages, which cannot be streamed to."""
        if self.text is None and self.model.role != "tool" and self.model.role != "activity":
            content = self.model.content
            if isinstance(content, list):
                self.parts, self.text = content, []
            else:
                self.text = [] if content is None else [content]
        return self.text

    def has_call(self, tool_call_id: str) -> bool:
        """Return whether the message has a call of an id."""
        if len(self.calls) < _MANY_CALLS:
            return any(call.model.id == tool_call_id for call in self.calls)
        if self.call_ids is None:
            self.call_ids = {call.model.id for call in self.calls}
        return tool_call_id in self.call_ids

    def build(self) -> Message:
        """Return the message as it is now, as a new model."""
        changes = self.changes or {}
        if self.text:
            text = joined(self.text)
            self.text = [text]
            changes["content"] = text
            if self.parts is not None:
                changes["content"] = [*self.parts, TextPart(text=text)] if text else self.parts
        if self.document is not None:
            changes["content"] = self.document.look()
        if self.calls:
            changes["tool_calls"] = self._build_calls()
        self.model, self.changes = successor(self.model, changes), None
        return self.model

    def _build_calls(self) -> list[ToolCall]:
        """Return the calls as they are now: a copy of the last list with those that have changed since."""
        before = getattr(self.model, "tool_calls", None)
        if self.changed_calls is None or before is None:
            calls = [call.build() for call in self.calls]
        else:
            calls = list(before)
            for call in self.changed_calls:
                calls[call.position : call.position + 1] = [call.build()]
        self.changed_calls = {}
        return calls


_FACTOR = 4
_LARGEST = 2**25 - 2**16
"""The bytes of about the largest block that glibc learns from; larger ones are always mapped."""


_reserved = [128 * 1024]
"""The bytes of the longest text that needs no further block, in the whole process: at first those that glibc maps."""


def joined(pieces: list[str]) -> str:
    """Join the pieces of a text that an application looks at while it grows.

    glibc maps a block that is larger than any it has freed into memory of its own, page by page, and unmaps it with the
    block: a text that grows to 2 MB and is looked at 100 000 times takes 20 seconds in the kernel. It reuses what is
    not larger, so that one large block, which is freed untouched, spares all that follow.

    Args:
        pieces: The text at the last look, and what has come since. If it is long already, it is looked at while it
            grows, and memory is reserved: once, and again whenever a text is four times as long.
    """
    if (size := getsizeof(pieces[0])) > _reserved[0]:
        _reserved[0] = _FACTOR * size
        bytes(min(_reserved[0], _LARGEST))
    return "".join(pieces)
