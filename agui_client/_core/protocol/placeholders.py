"""Placeholders: messages where a tool call's result would be, which a late result replaces (TOOL-5, TOOL-10).

A placeholder is known by a mark in its metadata, and not by its text, which any tool may return. Callers of a served
agent see the mark in its event, too. Only this side makes placeholders: marks that servers and callers send are not
stored. Whether a late result may be given, the ledger says as well: a mark alone proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from agui_client._core.protocol.schema import is_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ag_ui.core import BaseEvent, Message, ToolCallResultEvent, ToolMessage

EXTENSION = "agui-client"
"""The member of `metadata` in which this package says more than the protocol has a place for."""
NO_RESULT = "no result: the conversation went on without one"
"""The agent's message about a tool call that got no result."""
UNKNOWN_RESULT = "unknown: the tool was called, and stopped before it answered; it may have had its effect or not"
"""The agent's message about a tool call that was stopped in the middle."""
_MARK = "placeholder"
ResultT = TypeVar("ResultT", "ToolMessage", "ToolCallResultEvent")


def extension_of(item: BaseEvent | Message) -> dict[str, Any]:
    """Return what this package says more in the metadata of an event or a message; empty without it."""
    more = (item.metadata or {}).get(EXTENSION)
    return more if is_object(more) else {}


def marked(metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the metadata of a placeholder.

    Args:
        metadata: The other metadata of the message.
    """
    known = dict(metadata or {})
    more = known.get(EXTENSION)
    return {**known, EXTENSION: {**(more if is_object(more) else {}), _MARK: True}}


def unmarked(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return metadata without the mark of a placeholder; None where nothing else is in it."""
    known = dict(metadata or {})
    if is_object(more := known.get(EXTENSION)):
        known[EXTENSION] = {name: value for name, value in more.items() if name != _MARK}
        if not known[EXTENSION]:
            del known[EXTENSION]
    return known or None


def is_placeholder(result: ToolMessage | ToolCallResultEvent) -> bool:
    """Return whether a result of a tool call is marked as a placeholder."""
    return result.metadata is not None and extension_of(result).get(_MARK) is True


def without_mark(result: ResultT) -> ResultT:
    """Return a result of a tool call as one that is not a placeholder."""
    if not is_placeholder(result):
        return result
    return result.model_copy(update={"metadata": unmarked(result.metadata)})


def restated(stored: Message | None, result: ToolMessage) -> ToolMessage:
    """Return a result as another side states it again: it is a placeholder as long as the stored one is, and says so.

    Args:
        stored: The message with the present result of the call; None if there is none.
        result: The result as it is stated again.
    """
    if stored is None or stored.role != "tool" or not is_placeholder(stored) or stored.content != result.content:
        return result
    return result if is_placeholder(result) else result.model_copy(update={"metadata": marked(result.metadata)})
