"""Reduction of what is streamed: text and reasoning messages, tool calls, their results and encrypted values.

STREAM-2, STREAM-4, STREAM-5, TOOL-3 … TOOL-6, REASON-4 … REASON-8, LIFE-13 and META-3. Each function does to the thread
what one type of event says and returns what it touched; an event that fits nothing held is skipped with a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from uuid import NAMESPACE_OID, uuid5

from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    DeveloperMessage,
    FunctionCall,
    Message,
    ReasoningEncryptedValueEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    SystemMessage,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from agui_client._pipeline.ownership import quoted
from agui_client._pipeline.thread import MESSAGES, NONE, Change, Thread

if TYPE_CHECKING:
    from agui_client._pipeline.slots import CallSlot, MessageSlot

_TextStart: TypeAlias = TextMessageStartEvent | ReasoningMessageStartEvent
_TextContent: TypeAlias = TextMessageContentEvent | ReasoningMessageContentEvent
_TextEnd: TypeAlias = TextMessageEndEvent | ReasoningMessageEndEvent

_MESSAGE_OF_ROLE: dict[str, type[AssistantMessage | DeveloperMessage | SystemMessage | UserMessage]] = {
    "assistant": AssistantMessage,
    "developer": DeveloperMessage,
    "system": SystemMessage,
    "user": UserMessage,
}


def text_start(thread: Thread, event: TextMessageStartEvent) -> Change:
    """Open a message, of an assistant unless it says otherwise (STREAM-4)."""
    slot = thread.slots.get(event.message_id)
    if slot is not None:
        return _reopen(thread, slot, event)
    message = _MESSAGE_OF_ROLE[event.role or "assistant"](id=event.message_id, content="")
    if event.name is not None:
        message.name = event.name
    return thread.hold(message, event)


def reasoning_start(thread: Thread, event: ReasoningMessageStartEvent) -> Change:
    """Open a reasoning message (REASON-4)."""
    slot = thread.slots.get(event.message_id)
    if slot is not None:
        return _reopen(thread, slot, event)
    return thread.hold(ReasoningMessage(id=event.message_id, content=""), event)


def text_content(thread: Thread, event: _TextContent) -> Change:
    """Append to a text or reasoning message (STREAM-2)."""
    slot = thread.slots.get(event.message_id)
    if slot is None or slot.text is None:
        return _skip_text(thread, slot, event)
    slot.text.append(event.delta)
    thread.dirty.add(slot)
    if event.metadata:
        slot.merge_metadata(event.metadata)
    return MESSAGES


def text_end(thread: Thread, event: _TextEnd) -> Change:
    """Close a text or reasoning message: only its metadata can be news."""
    slot = thread.slots.get(event.message_id)
    if slot is None or slot.text is None:
        return _skip_text(thread, slot, event)
    return thread.merge(slot, event)


def tool_call_start(thread: Thread, event: ToolCallStartEvent) -> Change:
    """Open a call on its message. A call already held goes on, its name and place stand (TOOL-4)."""
    held = thread.calls.get(event.tool_call_id)
    if held is not None:
        return _merge_call(thread, held, event)
    call = ToolCall(id=event.tool_call_id, function=FunctionCall(name=event.tool_call_name, arguments=""))
    if event.metadata:
        call.metadata = dict(event.metadata)
    thread.add_call(_owner(thread, event), call)
    return MESSAGES


def tool_call_args(thread: Thread, event: ToolCallArgsEvent) -> Change:
    """Append to the argument text of a call, which need not be JSON (TOOL-2)."""
    call = thread.calls.get(event.tool_call_id)
    if call is None:
        return _skip_call(thread, event)
    call.arguments.append(event.delta)
    call.size += len(event.delta)
    call.changed = True
    thread.dirty.add(call.owner)
    if event.metadata:
        call.merge_metadata(event.metadata)
    return MESSAGES


def tool_call_end(thread: Thread, event: ToolCallEndEvent) -> Change:
    """Close a call: only its metadata can be news."""
    call = thread.calls.get(event.tool_call_id)
    return _skip_call(thread, event) if call is None else _merge_call(thread, call, event)


def tool_call_result(thread: Thread, event: ToolCallResultEvent) -> Change:
    """Put the result behind its call as a message of its own; told again, its content is replaced in place (TOOL-5)."""
    held = thread.slots.get(event.message_id)
    if held is not None:
        if isinstance(held.message, ToolMessage) and held.message.tool_call_id == event.tool_call_id:
            return thread.change(held, event, {"content": event.content})
        if event.message_id == event.tool_call_id and _is_made_for_a_call(held.message):
            # The id was ours to give (TOOL-3), and the producer gives it to the result: our message takes another.
            thread.rename(held, str(uuid5(NAMESPACE_OID, event.tool_call_id)))
        else:
            twin = f"{held.message.role} message {quoted(event.message_id)}"
            thread.warn("TOOL-5", event, f"has the id of {twin}; both are kept")
    message = ToolMessage(id=event.message_id, tool_call_id=event.tool_call_id, content=event.content)
    return thread.hold(message, event, thread.place_of_result(event.tool_call_id))


def _is_made_for_a_call(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and message.content is None


def encrypted_value(thread: Thread, event: ReasoningEncryptedValueEvent) -> Change:
    """Keep the value unread on the message or tool call it names (REASON-5 … REASON-8)."""
    store = _encrypt_call if event.subtype == "tool-call" else _encrypt_message
    if store(thread, event):
        return MESSAGES
    missing = f"{event.subtype} {quoted(event.entity_id)}"
    return thread.warn("REASON-7", event, f"skipped: there is no {missing} to keep it on")


def _encrypt_call(thread: Thread, event: ReasoningEncryptedValueEvent) -> bool:
    call = thread.calls.get(event.entity_id)
    if call is None:
        return False
    call.changes["encrypted_value"] = event.encrypted_value
    _touch(thread, call)
    return True


def _encrypt_message(thread: Thread, event: ReasoningEncryptedValueEvent) -> bool:
    slot = thread.slots.get(event.entity_id)
    if slot is None or isinstance(slot.message, ActivityMessage):
        return False
    slot.changes["encrypted_value"] = event.encrypted_value
    thread.dirty.add(slot)
    return True


def _reopen(thread: Thread, slot: MessageSlot, event: _TextStart) -> Change:
    """Go on with a message already held: its role, name and owner stand (STREAM-5, LIFE-13)."""
    if slot.text is None:
        return _skip_text(thread, slot, event)
    if isinstance(slot.message, ReasoningMessage) != isinstance(event, ReasoningMessageStartEvent):
        thread.warn(
            "STREAM-5", event, f"goes on with {slot.message.role} message {quoted(event.message_id)}; its role stands"
        )
    return thread.merge(slot, event)


def _skip_text(thread: Thread, slot: MessageSlot | None, event: _TextStart | _TextContent | _TextEnd) -> Change:
    if slot is None:
        return thread.warn("STREAM-1", event, f"skipped: there is no message {quoted(event.message_id)}")
    return thread.warn(
        "STREAM-5", event, f"skipped: {slot.message.role} message {quoted(event.message_id)} takes no text"
    )


def _owner(thread: Thread, event: ToolCallStartEvent) -> MessageSlot:
    """The assistant message a new call goes to: its parent, or one made for it (TOOL-3)."""
    if event.parent_message_id:
        parent = thread.slots.get(event.parent_message_id)
        if parent is None:
            return _new_owner(thread, event.parent_message_id, event)
        if isinstance(parent.message, AssistantMessage):
            return parent
        thread.warn("TOOL-3", event, f"names a {parent.message.role} message as parent; the call gets one of its own")
    namesake = thread.slots.get(event.tool_call_id)
    if namesake is not None and isinstance(namesake.message, AssistantMessage):
        return namesake
    return _new_owner(thread, event.tool_call_id, event)


def _new_owner(thread: Thread, message_id: str, event: ToolCallStartEvent) -> MessageSlot:
    message = AssistantMessage(id=message_id)
    if event.subagent_run_id is not None:
        message.subagent_run_id = event.subagent_run_id
    return thread.append(message)


def _merge_call(thread: Thread, call: CallSlot, event: ToolCallStartEvent | ToolCallEndEvent) -> Change:
    """The metadata of a call's events is the call's, not its message's (META-3)."""
    if not event.metadata:
        return NONE
    call.merge_metadata(event.metadata)
    return _touch(thread, call)


def _touch(thread: Thread, call: CallSlot) -> Change:
    call.changed = True
    thread.dirty.add(call.owner)
    return MESSAGES


def _skip_call(thread: Thread, event: ToolCallArgsEvent | ToolCallEndEvent) -> Change:
    return thread.warn("STREAM-1", event, f"skipped: there is no tool call {quoted(event.tool_call_id)}")
