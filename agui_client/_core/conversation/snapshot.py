"""The document of a conversation.

To change

- a part of a conversation that is saved: `ConversationSnapshot` here, `Conversation.members` and `Conversation.become`
  in `_core/conversation/conversation.py`; `_Values` in `_core/conversation/log.py`, or stored threads refuse it
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

from ag_ui.core import Interrupt, Message, ResumeEntry
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from agui_client._core.conversation.ledger import ToolCallRecord
from agui_client._core.ground.display import Displayed
from agui_client._core.protocol.message_text import answered_ids

ANOTHER_VERSION = "has another version than 2, the only one that this agui_client reads"
"""The problem with a saved conversation that another agui_client has written."""


class ConversationSnapshot(Displayed, BaseModel):
    """A conversation as a document: `model_dump_json()` it, keep it anywhere, `restore()` it in another process."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", ser_json_inf_nan="constants", defer_build=True)

    version: Literal[2] = 2
    """The version of the document's shape."""
    thread_id: str
    """The id of the thread."""
    messages: list[Message] = Field(default_factory=list["Message"])
    """The messages, in order."""
    state: Any = None
    """The state, any JSON value."""
    pending_interrupts: list[Interrupt] = Field(default_factory=list["Interrupt"])
    """The interrupts that the next run must answer."""
    answered_interrupts: list[Interrupt] = Field(default_factory=list["Interrupt"])
    """The interrupts that have answers which no finished run has carried: a failed one may be answered again."""
    asking_run_id: str | None = None
    """The id of the run that asked those interrupts; None if no run is known that did."""
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
    def open_interrupts(self) -> list[Interrupt]:
        """The interrupts of the agent that wait for answers: see `open_interrupts`."""
        return open_interrupts(self, answered_ids(self.messages))

    @property
    def pending_tool_call_ids(self) -> list[str]:
        """The tool calls that the last run left to the application, and that have no result."""
        answered = answered_ids(self.messages)
        ours = [each.tool_call_id for each in self.tool_calls if each.is_ours_to_answer]
        return [each for each in ours if each not in answered]

    @field_validator("version", mode="before")
    @classmethod
    def _check_version(cls, given: object) -> object:
        # Of the fields that another version has, the errors would say no more.
        if given != 2:
            raise PydanticCustomError("another_version", f"the document {ANOTHER_VERSION}")
        return given


class AskedThread(Protocol):
    """A conversation, or its document, as far as interrupts are concerned."""

    @property
    def pending_interrupts(self) -> Sequence[Interrupt]:
        """The interrupts that the last run has asked and nobody has answered."""
        ...

    @property
    def answered_interrupts(self) -> Sequence[Interrupt]:
        """Those that have answers which no finished run has carried."""
        ...

    @property
    def kept_answers(self) -> Sequence[ResumeEntry]:
        """The answers that are sent with those that are still missing."""
        ...


def open_interrupts(thread: AskedThread, done: Container[str]) -> list[Interrupt]:
    """Return the interrupts of an agent that wait for answers.

    This is the one answer for all that ask: programs, pages that connect, and the server that accepts an answer. An
    interrupt whose answer a failed run has carried waits again, unless that run has carried out its call.

    Args:
        thread: The conversation.
        done: The ids of the tool calls that have results.
    """
    if thread.pending_interrupts:
        return list(thread.pending_interrupts)
    kept = {each.interrupt_id for each in thread.kept_answers}
    again = (each for each in thread.answered_interrupts if each.id not in kept)
    return [each for each in again if each.tool_call_id is None or each.tool_call_id not in done]


def is_of_another_version(error: ValidationError) -> bool:
    """Return whether a document was refused because of its version."""
    return any(each["type"] == "another_version" for each in error.errors(include_input=False, include_url=False))


def document_of(members: Mapping[str, Any]) -> ConversationSnapshot:
    """Return a document with members that are validated apart from those of which there may be thousands."""
    checked: dict[str, Any] = {**members, "messages": [], "tool_calls": []}
    document = ConversationSnapshot(**checked)
    document.messages, document.tool_calls = members["messages"], members["tool_calls"]
    return document
