"""Messages under construction: a delta is an append to a list of strings, a look makes the model (STREAM-2).

A slot holds the model as of the last look and what has come since. Models are never changed, only succeeded by a copy,
so whoever looked keeps what they saw. Where slots are kept is thread's, what an event does to one is streamed's and
snapshots'.
"""

from __future__ import annotations

from typing import Any

from ag_ui.core import ActivityMessage, AssistantMessage, ContentPart, Message, TextPart, ToolCall, ToolMessage


class CallSlot:
    """One tool call, with the message that made it."""

    __slots__ = ("arguments", "call", "changed", "changes", "owner", "size")

    def __init__(self, call: ToolCall, owner: MessageSlot) -> None:
        self.call = call
        self.owner = owner
        self.arguments = [call.function.arguments]
        """The pieces of the argument text."""
        self.size = len(call.function.arguments)
        """The characters in them: to know how long the text is should not take making it."""
        self.changes: dict[str, Any] = {}
        """New values of other fields, since the last look."""
        self.changed = False
        """Whether there is anything new since the last look; then the owner has to be dirty, too."""

    def merge_metadata(self, metadata: dict[str, Any]) -> None:
        """Merge per key, last write wins, no recursion (META-1, META-2)."""
        _merge(self.changes, self.call.metadata, metadata)

    def build(self) -> ToolCall:
        """The call as it is now; the same object until the next change."""
        if self.changed:
            arguments = "".join(self.arguments)
            self.arguments = [arguments]
            self.changes["function"] = self.call.function.model_copy(update={"arguments": arguments})
            self.call = self.call.model_copy(update=self.changes)
            self.changes = {}
            self.changed = False
        return self.call


class MessageSlot:
    """One message, with its place in the thread."""

    __slots__ = ("calls", "changes", "index", "message", "parts", "text")

    def __init__(self, message: Message, index: int) -> None:
        self.message = message
        self.index = index
        self.changes: dict[str, Any] = {}
        """New values of other fields than text and tool calls, since the last look."""
        self.text: list[str] | None = None
        """The pieces of the text; None where none can be streamed to, in tool and activity messages."""
        self.parts: list[ContentPart] | None = None
        """The content parts before the streamed text; None where the content is a string."""
        self.calls: list[CallSlot] = []
        self._take_apart(message)

    def _take_apart(self, message: Message) -> None:
        if isinstance(message, ToolMessage | ActivityMessage):
            return
        if isinstance(message.content, list):
            self.parts, self.text = message.content, []
        else:
            self.text = [] if message.content is None else [message.content]
        if isinstance(message, AssistantMessage) and message.tool_calls:
            self.calls = [CallSlot(call, self) for call in message.tool_calls]

    def merge_metadata(self, metadata: dict[str, Any]) -> None:
        """Merge per key, last write wins, no recursion (META-1, META-2)."""
        _merge(self.changes, self.message.metadata, metadata)

    def build(self) -> Message:
        """The message as it is now, as a new model."""
        changes = self.changes
        if self.text:
            changes["content"] = self._content(self.text)
        if self.calls:
            changes["tool_calls"] = [call.build() for call in self.calls]
        self.changes = {}
        self.message = self.message.model_copy(update=changes)
        return self.message

    def _content(self, pieces: list[str]) -> str | list[ContentPart]:
        text = "".join(pieces)
        self.text = [text]
        if self.parts is None:
            return text
        return [*self.parts, TextPart(text=text)] if text else self.parts

    def text_now(self) -> str:
        """The streamed text as it is now, without making a model."""
        text = "".join(self.text or ())
        if self.text:
            self.text = [text]
        return text


def _merge(changes: dict[str, Any], current: dict[str, Any] | None, metadata: dict[str, Any]) -> None:
    """Merge into the changes since the last look; what has been looked at is copied first."""
    pending = changes.get("metadata")
    if pending is None:
        pending = changes["metadata"] = dict(current or {})
    pending.update(metadata)
