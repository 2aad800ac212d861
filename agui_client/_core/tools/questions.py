"""Questions of tools to people: how they were answered, and those that wait for an answer while the program continues.

To change

- questions of tools that nobody answers: this module has the models. `ToolCallTask` (`_core/tools/execute.py`) leaves
  the call without a result, `Conversation.note_execution` keeps the question, `TurnInput` takes the answers out of
  `resume=` and executes the calls again; a tool that left something with `ctx.leave` continues from there, as
  `_core/agent/agent_tool.py` does; a served agent packs the question into the id of its caller's interrupt
  (`_core/verbs/caller_interrupts.py`, `_serving/caller_input.py`)
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from ag_ui.core import Interrupt
from pydantic import BaseModel, ConfigDict, Field

from agui_client.errors import ToolError

NOBODY = "Nobody is here to answer this tool's question; ask the user in your reply."
"""The agent's message for a tool that asked a person, and there is none."""

Action: TypeAlias = Literal["accept", "decline", "cancel"]
"""The reaction of a person to a question, in the words of the MCP."""


class DeclinedError(ToolError):
    """A person did not want to answer a tool's question.

    Args:
        action: The way of it: a denial, or no decision at all.
    """

    def __init__(self, action: Literal["decline", "cancel"]) -> None:
        super().__init__("The user did not want to answer this tool's question.")
        self.action: Literal["decline", "cancel"] = action
        """The way of it, in the words of the MCP."""


class UnansweredError(ToolError):
    """Nobody was there to answer a tool's question; it waits for an answer if the call can be made again with it."""

    def __init__(self, question: Interrupt) -> None:
        super().__init__(NOBODY)
        self.question = question
        """The question, as an interrupt with a `responseSchema`."""


class GivenAnswer(BaseModel):
    """An answer to a question of a tool."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", ser_json_inf_nan="constants", defer_build=True)

    question: str | None = None
    """The question."""
    response_schema: Any = None
    """The schema of its answer."""
    action: Action = "accept"
    """The reaction of the person."""
    payload: Any = None
    """The answer as JSON; None if there is none."""

    def is_about(self, asked: Interrupt) -> bool:
        """Whether a question is the one that was answered: a call that is made again asks it under another id."""
        return (asked.message, asked.response_schema) == (self.question, self.response_schema)

    def value(self) -> Any:
        """Return the answer.

        Raises:
            DeclinedError: The person gave none.
        """
        if self.action != "accept":
            raise DeclinedError(self.action)
        return self.payload


class ToolQuestion(BaseModel):
    """A question that a tool call waits for; the call is made again with the answer."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", ser_json_inf_nan="constants", defer_build=True)

    interrupt: Interrupt
    """The question, as an interrupt with the id of the call."""
    arguments: dict[str, Any]
    """The arguments that the tool was called with, as JSON: those that were approved, if approval was needed."""
    answers: list[GivenAnswer] = Field(default_factory=list[GivenAnswer])
    """The answers to earlier questions of the call, in order; those only that came after what it left."""
    given: GivenAnswer | None = None
    """The answer to the question, until the call is made again with it; None as long as it waits for one."""
    left: Any = Field(default=None, repr=False)
    """The value that the tool left with `ToolContext.leave`, to continue from there; None for one that begins anew."""
