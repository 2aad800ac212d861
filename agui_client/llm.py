"""A language model as an agent in this process (extra `llm`); pydantic-ai speaks to the model.

    agent = LLMAgent("openai:gpt-5", instructions="Answer briefly.", tools=[get_weather])

Tools and their approval are this package's, so that they look the same as for remote agents.
"""

from __future__ import annotations

import os
import re
from asyncio import AbstractEventLoop, get_running_loop
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Unpack, cast
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from ag_ui.core import RunErrorEvent

from agui_client._core.ground.secrets import address_of

try:
    from pydantic_ai import Agent, DeferredToolRequests
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import Model, infer_model
    from pydantic_ai.ui.ag_ui import AGUIAdapter, AGUIEventStream
except ModuleNotFoundError as _missing:
    raise ImportError("agui_client.llm needs pydantic-ai: pip install 'agui-client[llm]'") from _missing

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.protocol.schema import is_a
from agui_client._core.run.options import lists_keywords
from agui_client._core.run.scope import AgentOptions, StateT
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from ag_ui.core import BaseEvent, RunAgentInput

    from agui_client._core.protocol.events import WireEvent

__all__ = ["LLMAgent"]

_OLLAMA = "http://localhost:11434/v1"
"""The address of Ollama's server on the same machine."""


@lists_keywords(AgentOptions)
class LLMAgent(AbstractAgent[StateT]):
    """A language model as an agent.

    Args:
        model: The model: "openai:gpt-5" or "openai/gpt-5", "anthropic:claude-sonnet-4-5", "ollama:llama3.2" for a model
            on this machine (`OLLAMA_BASE_URL` names another server), or a model of pydantic-ai. An `Agent` of
            pydantic-ai is used as it is, its own tools included. Models and Agents belong to one event loop at a time.
        instructions: The instructions of every run.
        output_type: The type of the reply, such as a pydantic model; read the reply with `result.parse(output_type)`.
        model_settings: Settings of the model, such as `{"temperature": 0}`.
        options: See `AgentOptions`.

    Raises:
        UsageError: The model is unknown, or its provider's package or key is missing.
    """

    def __init__(
        self,
        model: str | Model | Agent[None, Any],
        *,
        instructions: str | None = None,
        output_type: Any = str,
        model_settings: dict[str, Any] | None = None,
        **options: Unpack[AgentOptions[StateT]],
    ) -> None:
        super().__init__(**options)
        if isinstance(model, Agent):
            if instructions is not None or output_type is not str or model_settings is not None:
                raise UsageError("instructions, output_type and model_settings are part of the Agent that was given")
            self._given: Agent[None, Any] | None = model
            return

        def make() -> Agent[None, Any]:
            """Make the agent of pydantic-ai."""
            # A call of an application's tool ends the run of the model, as an output of this type.
            outputs: Any = [output_type, DeferredToolRequests]
            settings: Any = model_settings
            return Agent(_model(model), instructions=instructions, output_type=outputs, model_settings=settings)

        self._make, self._agents = make, WeakKeyDictionary[AbstractEventLoop, Agent[None, Any]]()
        # A name that cannot be used is an error now, not in the first run.
        made = make()
        self._given = None if isinstance(model, str) else made

    async def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Run the model once.

        Args:
            input: The input of the run.

        Returns:
            Its events.

        Raises:
            UsageError: The event loop is trio's.
        """
        # The block closes the connections to the model's server with the last run that uses them.
        async with self._agent_here() as agent:
            adapter = _Adapter(agent=agent, run_input=input, include_usage=True)
            async with aclosing(cast("AsyncGenerator[WireEvent]", adapter.run_stream())) as events:
                async for event in events:
                    yield event

    def _agent_here(self) -> Agent[None, Any]:
        """Return the agent for the running event loop: its connections belong to one."""
        try:
            loop = get_running_loop()
        except RuntimeError:
            raise UsageError("LLMAgent needs asyncio: pydantic-ai does not run on trio") from None
        if self._given is not None:
            return self._given
        if loop not in self._agents:
            self._agents[loop] = self._make()
        return self._agents[loop]


def _model(model: str | Model) -> Model:
    """Return a model by its name.

    Raises:
        UsageError: It is unknown, or its provider's package or key is missing.
    """
    if isinstance(model, Model):
        return model
    if not is_a(model, str):
        kinds = "a name, such as 'ollama:llama3.2', or a model or an Agent of pydantic-ai"
        raise UsageError(f"a model is {kinds}, not {model!r}")
    name = model if ":" in model else model.replace("/", ":", 1)
    provider, _, model_name = name.partition(":")
    try:
        if provider == "ollama" and not os.environ.get("OLLAMA_BASE_URL"):
            from pydantic_ai.models.ollama import OllamaModel
            from pydantic_ai.providers.ollama import OllamaProvider

            return OllamaModel(model_name, provider=OllamaProvider(base_url=_OLLAMA))
        return infer_model(name)
    except (UserError, ValueError, ImportError) as error:
        variable = re.search(r"`([A-Z0-9_]+)` environment variable", str(error))
        why = f"set the environment variable {variable[1]}" if variable else str(error)
        raise UsageError(f"the model {model!r} cannot be used: {why}") from error


@dataclass
class _EventStream(AGUIEventStream[None, Any]):
    """The events of a run, with errors that say what to do."""

    async def on_error(self, error: Exception) -> AsyncIterator[BaseEvent]:
        """Explain an error."""
        async for event in super().on_error(error):
            if isinstance(event, RunErrorEvent):
                yield event.model_copy(update={"message": _explained(error), "code": type(error).__name__})
            else:
                yield event


class _Adapter(AGUIAdapter[None, Any]):
    def build_event_stream(self) -> _EventStream:
        """Make the stream that turns what the model does into events."""
        return _EventStream(self.run_input, ag_ui_version=self.ag_ui_version, include_usage=self.include_usage)


def _explained(error: BaseException) -> str:
    """Return the text of an error, with the address of the server and what to do about it."""
    url: Any = getattr(getattr(error.__cause__ or error, "request", None), "url", None)
    if not hasattr(url, "copy_with"):
        return str(error)
    ollama = urlsplit(os.environ.get("OLLAMA_BASE_URL") or _OLLAMA)
    status, hint = getattr(error, "status_code", None), ""
    if status is None and (url.host, url.port) == (ollama.hostname, ollama.port):
        hint = "; is it running? `ollama serve` starts it"
    elif status == HTTPStatus.NOT_FOUND and url.path.endswith("/responses"):
        hint = "; a server that has chat completions only is named as in 'openai-chat:gpt-5'"
    return f"{error} ({address_of(url)}){hint}"
