"""The events of a run as the reply of a chat completion: text, calls for the caller's tools, usage and an end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ag_ui.core import (
    AssistantMessage,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedInterruptOutcome,
    TextMessageContentEvent,
    ToolMessage,
)

from agui_client._core.protocol.outcome import OutcomeTracker
from agui_client._core.protocol.reduce import Reducer

if TYPE_CHECKING:
    from ag_ui.core import Event, Interrupt, Message, RunAgentInput, ToolCall


class ChatReply:
    """Collects the reply to a request of a run's events.

    Text is passed on as it comes. Text of subagents, reasoning and the server's own tools are not part of a reply,
    and calls are known at the end alone, when it is seen which of them wait for the caller.

    Args:
        input: The input of the run.
        model: The name of the model that was asked for.
    """

    def __init__(self, input: RunAgentInput, model: str) -> None:
        self._input, self._model, self._begun = input, model, int(time.time())
        self._reducer, self._tracker = Reducer(input.messages, input.state), OutcomeTracker()
        self._given = {each.id for each in input.messages}
        self._results = {each.tool_call_id for each in input.messages if isinstance(each, ToolMessage)}
        self._tools = {each.name for each in input.tools or ()}
        # The pieces of the text, all and by message: joined at each delta, they would be copied at each.
        self._pieces, self._passed = list[str](), dict[str, list[str]]()
        self._stated = dict[str, None]()

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def feed(self, event: Event) -> str:
        """Take in an event of the run; return the text that it adds to the reply."""
        before = len(self._pieces)
        self._tracker.note(event)
        self._reducer.feed(event)
        if isinstance(event, TextMessageContentEvent):
            if event.message_id in self._tracker.text_message_ids:
                self._add(event.message_id, event.delta)
        elif isinstance(event, MessagesSnapshotEvent):
            for message in self._new_messages(event.messages):
                self._stated[message.id] = None
                # What was not streamed, as by servers that send snapshots alone.
                passed, content = "".join(self._passed.get(message.id, ())), message.content or ""
                if content.startswith(passed):
                    self._add(message.id, content[len(passed) :])
        return "".join(self._pieces[before:])

    def _add(self, message_id: str, text: str) -> None:
        if text:
            between = "\n\n" if self._pieces and message_id not in self._passed else ""
            self._passed.setdefault(message_id, []).append(text)
            self._pieces.append(between + text)

    def _new_messages(self, messages: Sequence[Message]) -> Iterator[AssistantMessage]:
        """Yield the agent's messages behind all that the caller sent; a server may give those other ids."""
        begin = max((at for at, each in enumerate(messages, 1) if self._is_of_caller(each)), default=0)
        for message in messages[begin:]:
            if isinstance(message, AssistantMessage) and message.subagent_run_id is None:
                yield message

    def _is_of_caller(self, message: Message) -> bool:
        is_result = isinstance(message, ToolMessage) and message.tool_call_id in self._results
        return message.id in self._given or message.role == "user" or is_result

    @property
    def error(self) -> RunErrorEvent | None:
        """The event with which the run failed; None if it did not."""
        if not self._tracker.is_terminal:
            return RunErrorEvent(message="The reply was cut off.", code="incomplete")
        return self._tracker.error

    @property
    def interrupts(self) -> Sequence[Interrupt]:
        """The questions that wait for a person."""
        asked = isinstance(self._tracker.outcome, RunFinishedInterruptOutcome)
        return self._tracker.interrupts if asked else ()

    @property
    def continued_input(self) -> RunAgentInput:
        """The input with all messages and the state after the run, which answers to its questions complete."""
        changes = {"messages": self._reducer.messages, "state": self._reducer.state}
        return self._input.model_copy(update=changes)

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that wait for the caller."""
        messages, streamed = self._reducer.messages, self._tracker.tool_call_ids
        answered = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
        return [
            call
            for message in messages
            if isinstance(message, AssistantMessage) and message.subagent_run_id is None
            for call in message.tool_calls or ()
            if (message.id in self._stated or call.id in streamed)
            and call.function.name in self._tools
            and call.id not in answered
        ]

    @property
    def usage(self) -> dict[str, Any] | None:
        """The tokens of the run; None if the agent reported none."""
        if not (used := self._tracker.usage):
            return None
        prompt, completion = (
            sum(getattr(each, name) or 0 for each in used) for name in ("input_tokens", "output_tokens")
        )
        cached = sum(each.cached_input_tokens or 0 for each in used)
        reasoning = sum(each.reasoning_tokens or 0 for each in used)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": sum(each.total_tokens or 0 for each in used) or prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }

    # --- as JSON

    def completion(self, text: str) -> dict[str, Any]:
        """Return the whole reply."""
        calls = self._calls_as_json()
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if calls else "stop"}
        return {**self._common("chat.completion"), "choices": [choice], "usage": self.usage}

    def beginning(self) -> dict[str, Any]:
        """Return the first chunk of a streamed reply."""
        return self._chunk({"role": "assistant", "content": ""})

    def delta(self, text: str) -> dict[str, Any]:
        """Return the chunk of a streamed reply that adds a text."""
        return self._chunk({"content": text})

    def ends(self, *, wants_usage: bool) -> Iterator[dict[str, Any]]:
        """Yield the last chunks of a streamed reply.

        Args:
            wants_usage: Whether the caller asked for the usage.
        """
        if calls := self._calls_as_json():
            yield self._chunk({"tool_calls": [{"index": index, **call} for index, call in enumerate(calls)]})
        yield self._chunk({}, "tool_calls" if calls else "stop")
        if wants_usage and (usage := self.usage) is not None:
            yield {**self._common("chat.completion.chunk"), "choices": [], "usage": usage}

    def _calls_as_json(self) -> list[dict[str, Any]]:
        return [call.model_dump(include={"id", "type", "function"}) for call in self.calls]

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._common("chat.completion.chunk"), "choices": [choice]}

    def _common(self, kind: str) -> dict[str, Any]:
        return {"id": self._input.run_id, "object": kind, "created": self._begun, "model": self._model}
