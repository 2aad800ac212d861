"""An agent in the place of a language model of pydantic-ai, such as in a team of its agents."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ag_ui.core import SystemMessage
from ag_ui.core import Tool as ToolDeclaration

try:
    from pydantic_ai import RunContext
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models import Model, StreamedResponse
    from pydantic_ai.ui.ag_ui import AGUIAdapter
except ModuleNotFoundError as _missing:
    raise ImportError("pydantic_ai_model() needs pydantic-ai: pip install 'agui-client[pydantic-ai]'") from _missing

from agui_client._core.tools.toolset import Toolset, chooses_tools, tool_list
from agui_client.adapters._pydantic_ai_reply import ModelReply, calls_of, refuse_questions, usage_of
from agui_client.adapters._questions import ended_run

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.verbs.async_run import AgentRun


def pydantic_ai_model(agent: AbstractAgent[Any]) -> Model:
    """Make an agent usable in the place of a language model: `Agent(pydantic_ai_model(agent))`, such as in a team.

    The framework sends the conversation with each request, and its tools as those of the agent's caller, which the
    framework calls. What the agent asks people has no place in a model's reply, and is a `UserError`: use
    `pydantic_ai_tool` for such agents, or give the agent handlers of its own.

    Args:
        agent: The agent; each request runs a clone of it.

    Returns:
        The model, for requests and streams. It raises the errors of `run_agent`.
    """
    return _AgentModel(agent)


class _AgentModel(Model):
    def __init__(self, agent: AbstractAgent[Any]) -> None:
        super().__init__()
        self._agent = agent

    @property
    def model_name(self) -> str:
        """The id of the agent."""
        return self._agent.agent_id

    @property
    def system(self) -> str:
        """The name of the protocol, in the place of a provider's."""
        return "ag-ui"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Run the agent once."""
        async with self._run(messages, model_settings, model_request_parameters) as run:
            result, asked = await ended_run(run)
        refuse_questions(asked)
        calls = calls_of(result)
        text = [TextPart(result.text)] if result.text or not calls else []
        parts: list[TextPart | ToolCallPart] = [*text, *calls]
        return ModelResponse(parts=parts, usage=usage_of(result), model_name=self.model_name)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Run the agent once, as a block with its reply as it comes."""
        del run_context
        async with self._run(messages, model_settings, model_request_parameters) as run:
            yield ModelReply(model_request_parameters, _run=run, _name=self.model_name)

    def _run(
        self, messages: list[ModelMessage], settings: ModelSettings | None, asked: ModelRequestParameters
    ) -> AgentRun[Any]:
        _, asked = self.prepare_request(settings, asked)
        ours = self._agent.clone()
        sent = AGUIAdapter.dump_messages(messages)
        instructions = [each.instructions for each in messages if isinstance(each, ModelRequest) and each.instructions]
        system = [SystemMessage(id="instructions", content=instructions[-1])] if instructions else []
        ours.set_messages([*system, *sent])
        offered = [*asked.function_tools, *asked.output_tools]
        theirs = [
            ToolDeclaration(name=each.name, description=each.description or "", parameters=each.parameters_json_schema)
            for each in offered
        ]
        return ours.stream(tools=[*_own_tools(ours), *theirs])


def _own_tools(agent: AbstractAgent[Any]) -> list[Any]:
    """Return the tools that the agent carries out itself, beside those of the framework."""
    own: Any = agent.tools
    if chooses_tools(own):
        raise UserError("an agent that chooses its tools for each run cannot stand in for a model")
    return [own] if isinstance(own, Toolset) else tool_list(own)
