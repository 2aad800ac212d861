"""The reply of an agent as pydantic-ai has it of a model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ag_ui.core import RunFinishedEvent
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models import StreamedResponse
from pydantic_ai.usage import RequestUsage

from agui_client._core.verbs.async_run import ReplyText
from agui_client.adapters._questions import asked_by

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponseStreamEvent

    from agui_client._core.run.result import RunResult
    from agui_client._core.verbs.async_run import AgentRun


@dataclass
class ModelReply(StreamedResponse):
    """The reply of a run, as it comes."""

    _run: AgentRun[Any] = field(kw_only=True)
    _name: str = field(kw_only=True)
    _begun: datetime = field(default_factory=lambda: datetime.now(UTC), kw_only=True)

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        parts, has_text = self._parts_manager, False
        reply, last = ReplyText(), None
        async for each in self._run:
            if isinstance(each, RunFinishedEvent):
                last = each
            elif delta := reply.text_in(each):
                has_text = True
                for event in parts.handle_text_delta(vendor_part_id="text", content=delta):
                    yield event
        result = await self._run.result()
        refuse_questions(asked_by(self._run, last))
        calls = calls_of(result)
        self._usage = usage_of(result)
        # Servers that send snapshots alone stream no text.
        if not has_text and (result.text or not calls):
            for event in parts.handle_text_delta(vendor_part_id="text", content=result.text):
                yield event
        for call in calls:
            yield parts.handle_part(vendor_part_id=call.tool_call_id, part=call)

    async def close_stream(self) -> None:
        """Stop the run."""
        self._run.cancel()

    @property
    def model_name(self) -> str:
        """The id of the agent."""
        return self._name

    @property
    def provider_name(self) -> str:
        """The name of the protocol, in the place of a provider's."""
        return "ag-ui"

    @property
    def provider_url(self) -> None:
        """None, as an agent need not have an address."""
        return None

    @property
    def timestamp(self) -> datetime:
        """The time when the reply began, in UTC."""
        return self._begun


def refuse_questions(asked: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a reply that waits for people.

    Raises:
        UserError: It does.
    """
    if asked:
        texts = "; ".join(str(each.get("message") or each["reason"]) for each in asked)
        what = f"the agent asks people, which a model cannot pass on: {texts}"
        raise UserError(f"{what}; use pydantic_ai_tool(), or give the agent approve= or answer=")


def calls_of(result: RunResult[Any]) -> list[ToolCallPart]:
    """Return the calls that the framework carries out."""
    calls = result.pending_tool_calls
    return [ToolCallPart(each.function.name, each.function.arguments, tool_call_id=each.id) for each in calls]


def usage_of(result: RunResult[Any]) -> RequestUsage:
    """Return the tokens of a run, of all its models together."""
    used = RequestUsage()
    for each in result.usage or ():
        used.input_tokens += each.input_tokens or 0
        used.output_tokens += each.output_tokens or 0
        used.cache_read_tokens += each.cached_input_tokens or 0
        used.cache_write_tokens += each.cache_write_input_tokens or 0
    return used
