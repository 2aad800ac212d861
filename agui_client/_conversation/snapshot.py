"""The document of a conversation, and the way to it from the first version, whose calls were lists of ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ag_ui.core import AssistantMessage, Interrupt, Message, ResumeEntry, ToolMessage
from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, TypeAdapter, model_validator

from agui_client._conversation.ledger import CallOwner, CallStatus, ToolCallRecord
from agui_client._display import Displayed
from agui_client._protocol.schema import is_object

_MESSAGES = TypeAdapter(list[Message], config=ConfigDict(defer_build=True))


class ConversationSnapshot(Displayed, BaseModel):
    """A conversation as a document: `model_dump_json()` it, keep it anywhere, `restore()` it in another process."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="constants", defer_build=True)

    version: Literal[2] = 2
    """The version of the document's shape; documents of version 1 are read."""
    thread_id: str
    """The id of the thread."""
    messages: list[Message] = Field(default_factory=list["Message"])
    """The messages, in order."""
    state: Any = None
    """The state, any JSON value."""
    pending_interrupts: list[Interrupt] = Field(default_factory=list["Interrupt"])
    """The interrupts that the next run must answer."""
    answered_interrupts: list[Interrupt] = Field(default_factory=list["Interrupt"])
    """The interrupts that a failed run has answered, which may be answered again."""
    abandoned: bool = False
    """Whether the next run abandons those interrupts."""
    kept_answers: list[ResumeEntry] = Field(default_factory=list["ResumeEntry"])
    """Answers to interrupts that were given already and are sent with the remaining ones."""
    incomplete_ids: list[str] = Field(default_factory=list[str])
    """The messages that runs began and did not complete."""
    unreceived_ids: list[str] | None = None
    """The messages that were added since the last finished run; None if the agent may lack any of the messages."""
    state_base: str | None = None
    """The hash of the state that a server had when the last run ended; None if no server said that it takes one."""
    approved_tools: list[str] = Field(default_factory=list[str])
    """The names of the tools whose calls are approved in this thread without a question."""
    tool_calls: list[ToolCallRecord] = Field(default_factory=list[ToolCallRecord])
    """The records of the tool calls that runs left, as long as they wait, were executed here, or have a placeholder."""

    @property
    def pending_tool_call_ids(self) -> list[str]:
        """The tool calls that the last run left to the application, and that have no result."""
        answered = set[str]()
        for message in self.messages:
            if message.role == "tool":
                answered.add(message.tool_call_id)
            elif message.role == "assistant":
                # Servers use ids again: a result before the message is one of another call.
                answered.difference_update(call.id for call in message.tool_calls or ())
        ours = [each.tool_call_id for each in self.tool_calls if each.is_ours_to_answer]
        return [each for each in ours if each not in answered]

    @model_validator(mode="wrap")
    @classmethod
    def _from_first_version(cls, given: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        return handler(upgraded(given) if is_object(given) and given.get("version") == 1 else given)


def upgraded(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document of the first version as one of the second.

    Args:
        document: The document, whose members may be models or JSON.
    """
    first = dict(document)
    lists = {name: list(first.pop(name, ())) for name in (*_IDS, "tool_questions", "shown_tool_calls")}
    messages = _MESSAGES.validate_python(first.get("messages", ()))
    records, call_ids = _records(messages, lists)
    incomplete = [each for each in lists["incomplete_ids"] if each not in call_ids]
    return {**first, "version": 2, "messages": messages, "incomplete_ids": incomplete, "tool_calls": records}


_IDS = ("pending_tool_call_ids", "incomplete_ids", "executed_call_ids", "unfinished_call_ids", "unheard_ids")


def _records(messages: Iterable[Message], lists: Mapping[str, list[Any]]) -> tuple[list[ToolCallRecord], set[str]]:
    """Return the records that lists of ids stand for, and the ids of all calls."""
    calls, results = dict[str, tuple[AssistantMessage, Any]](), dict[str, str]()
    for message in messages:
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = message.id
        elif isinstance(message, AssistantMessage):
            calls.update((call.id, (message, call)) for call in message.tool_calls or ())
    pending, incomplete, executed, unfinished, unheard = (dict.fromkeys(lists[name]) for name in _IDS)
    shown = {_id(each): each for each in lists["shown_tool_calls"]}
    questions = {_call_of(each): each for each in lists["tool_questions"]}
    records: list[ToolCallRecord] = []
    for call_id in dict.fromkeys([*pending, *shown, *questions, *executed, *unfinished]):
        is_answered = call_id in results
        if call_id not in calls or (is_answered and call_id not in executed):
            continue
        message, call = calls[call_id]
        is_whole, is_cut = call_id not in incomplete, call_id in unfinished or call_id in incomplete
        status = CallStatus.CUT if is_cut else CallStatus.WAITING
        if call_id in questions:
            status = CallStatus.ASKED
        elif call_id in executed:
            status = CallStatus.ANSWERED if is_answered else CallStatus.EXECUTING
        record = {
            "tool_call_id": call_id,
            "message_id": message.id,
            "subagent_run_id": message.subagent_run_id,
            "status": status,
            # Whether the application or its caller answers it, the first version did not know.
            "answered_by": None if call_id in pending else CallOwner.AGENT,
            "is_whole": is_whole,
            "is_reported": is_answered and results[call_id] not in unheard,
            "shown": shown.get(call_id, call if is_whole and call_id in pending else None),
            "question": questions.get(call_id),
        }
        records.append(ToolCallRecord.model_validate(record))
    return records, set(calls)


def _id(call: Any) -> str:
    return str(call["id"] if is_object(call) else call.id)


def _call_of(question: Any) -> str:
    asked = question["interrupt"] if is_object(question) else question.interrupt
    return str((asked.get("toolCallId") or asked.get("tool_call_id")) if is_object(asked) else asked.tool_call_id)


def document_of(members: Mapping[str, Any]) -> ConversationSnapshot:
    """Return a document with members that are validated apart from the messages, of which there may be thousands."""
    checked: dict[str, Any] = {**members, "messages": []}
    document = ConversationSnapshot(**checked)
    document.messages = members["messages"]
    return document
