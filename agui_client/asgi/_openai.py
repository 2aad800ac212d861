"""An agent behind OpenAI's chat completions: `/v1/chat/completions` and `/v1/models`.

The front stands before an `AgentApp` as a proxy in the same process would: it translates the body of the request and
the frames of the response, and leaves who may ask, limits, stores, disconnection and shutdown to the app.

To change

- what a chat completion asks for and gets: `asgi/_openai_request.py` makes the input, `asgi/_openai_reply.py` the
  response; addresses, errors and questions to people here
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui.core import RunStartedEvent
from pydantic_core import from_json, to_json

from agui_client._core.ground.concurrency import whole
from agui_client._core.protocol.events import VALIDATOR
from agui_client._core.transport.sse import Framer
from agui_client._core.verbs.sse import KEEP_ALIVE
from agui_client._serving.served_request import RequestRefusedError
from agui_client.asgi._app import AgentApp
from agui_client.asgi._openai_reply import ChatReply
from agui_client.asgi._openai_request import ChatRequest, chat_request_of
from agui_client.asgi._request_body import read_body
from agui_client.asgi._responses import begin_response
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import Event, Interrupt, RunAgentInput

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.transport.in_process import Receive, Send
    from agui_client.asgi._admission import Authorizer
    from agui_client.asgi._served_agent import Chooser

OnQuestion: TypeAlias = Callable[["RunAgentInput", "Sequence[Interrupt]"], str | Awaitable[str]]
"""A function, sync or async, of the input with the conversation so far and of the questions, which returns the text
that the caller gets."""

_LARGEST = 2**31
"""The bytes of the largest event: those of an agent of this process are not limited."""
_CHAT, _MODELS = "/v1/chat/completions", "/v1/models"
# The openai package repeats what fails with 5xx or 409 twice, and an agent may have acted before it failed.
_NO_RETRY = {"x-should-retry": "false"}
_NOT_ASKED = (
    "the agent asks a person before it continues, and this address cannot pass on the question; "
    "openai_app(on_question=...) answers with a text, such as a link to a page that can"
)


class OpenAIApp:
    """An ASGI app that serves an agent to programs and pages that speak to OpenAI's chat completions.

    Mount it at any path, with `<path>/v1` as the clients' base URL. Members of a request that are not read here, such
    as `temperature`, reach the agent in `forwarded_props`, also `model` and `metadata`. `metadata.thread_id` names the
    thread; otherwise each request is one of its own, with the caller's messages. Tools of the caller are offered to the
    agent, and their calls end the reply.

    Args:
        agent: The agent or the function that chooses one, as for `agent_app`; or an `AgentApp`, for all its options,
            such as a store or a secret.
        authorize: As for `agent_app`; an `AgentApp` has its own.
        owner_of: As for `agent_app`; an `AgentApp` has its own.
        models: The names that callers may ask for.
        on_question: What callers get instead of a question of the agent, such as for approval: a function, sync or
            async, of the input and the interrupts, which returns a text, such as a link to a page where a person
            answers. The input has the messages and the state after the run: sent to the `AgentApp` with the answers in
            `resume`, and a new run id, it resumes the run. None refuses the request with 422.

    Raises:
        UsageError: An argument has a wrong value.
    """

    def __init__(
        self,
        agent: AbstractAgent | Chooser | AgentApp,
        *,
        authorize: Authorizer | None = None,
        owner_of: Callable[[Any], str] | None = None,
        models: Sequence[str] = ("agent",),
        on_question: OnQuestion | None = None,
    ) -> None:
        if isinstance(agent, AgentApp):
            if authorize is not None or owner_of is not None:
                raise UsageError("authorize= and owner_of= are options of the AgentApp that was given")
            self._app = agent
        else:
            self._app = AgentApp(agent, authorize=authorize, owner_of=owner_of)
        if isinstance(models, str) or not models:
            raise UsageError(f"models= takes a list of names, not {models!r}")
        if on_question is not None and not callable(on_question):
            raise UsageError(f"on_question= takes a function of the input and the interrupts, not {on_question!r}")
        self._models, self._on_question = tuple(models), on_question

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request (the ASGI interface)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root).rstrip("/")
        # The app sees its own address, so that what it signs there counts here.
        inner = {**scope, "path": f"{root}/"}
        if path == _CHAT:
            exchange = _Exchange(self._app, self._models, self._on_question, receive, send)
            await self._app(inner, exchange.receive, exchange.send)
        elif path == _MODELS and scope["method"] in ("GET", "HEAD"):
            await self._list_models(inner, send)
        else:
            await _send_error(send, 404, f"there is no {scope['method']} {path or '/'} here", code="not_found")

    @property
    def lifespan(self) -> Callable[..., Any]:
        """The lifespan of an app that this one is mounted in; see `AgentApp.lifespan`."""
        return self._app.lifespan

    async def _list_models(self, scope: Mapping[str, Any], send: Send) -> None:
        try:
            await self._app.admission.authorized(scope)
        except RequestRefusedError as refused:
            await _send_error(send, refused.status, refused.reason, headers=refused.headers)
            return
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "agui_client"} for name in self._models]
        await _send_json(send, 200, {"object": "list", "data": listed})


openai_app = OpenAIApp
"""Makes an `OpenAIApp`: `app = openai_app(agent)`."""


class _Exchange:
    """One request for a chat completion: the ASGI callables that the agent's app reads from and writes to."""

    def __init__(
        self, app: AgentApp, models: Sequence[str], on_question: OnQuestion | None, receive: Receive, send: Send
    ) -> None:
        self._app, self._models, self._on_question = app, models, on_question
        self._receive, self._send = receive, send
        self._asked: ChatRequest | None = None
        self._reply: ChatReply | None = None
        self._framer = Framer(_LARGEST)
        self._status, self._headers, self._refusal = 0, dict[str, str](), bytearray()

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the body of the run that the request asks for; after that, what the server says.

        Raises:
            RequestRefusedError: The request cannot be served; raised in the app, which responds with the status.
        """
        if self._asked is not None:
            return await self._receive()
        limits = self._app.limits
        body = await read_body(self._receive, max_bytes=limits.max_body_bytes, seconds=limits.body_timeout)
        self._asked, input = await chat_request_of(body, max_bytes=limits.max_body_bytes)
        if self._asked.model not in self._models:
            raise RequestRefusedError(404, f"the model {self._asked.model!r} does not exist")
        self._reply = ChatReply(input, self._asked.model)
        return {"type": "http.request", "body": to_json(input, by_alias=True, exclude_none=True)}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Take in a part of the app's response, and send what follows of it."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            if self._is_streamed:
                await begin_response(self._send, 200, self._headers)
            return
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        if self._status != 200 or self._reply is None:
            self._refusal += body
            if is_last:
                await self._refuse()
        elif body == KEEP_ALIVE:
            await self._send_streamed(body)
        else:
            await self._take_in(self._reply, body)
            if is_last:
                await self._end(self._reply)

    @property
    def _is_streamed(self) -> bool:
        return self._status == 200 and self._asked is not None and bool(self._asked.stream)

    async def _take_in(self, reply: ChatReply, body: bytes) -> None:
        for data in self._framer.feed(body):
            event: Event = VALIDATOR.validate_json(data, by_alias=True, by_name=False)
            if isinstance(event, RunStartedEvent):
                await self._send_chunk(reply.beginning())
            if added := reply.feed(event):
                await self._send_chunk(reply.delta(added))

    async def _end(self, reply: ChatReply) -> None:
        if (error := reply.error) is not None:
            await self._fail(500, error.message, error.code or "agent_failed")
            return
        text = reply.text
        if reply.interrupts:
            if self._on_question is None:
                await self._fail(422, _NOT_ASKED, "question")
                return
            question = self._on_question(reply.continued_input, reply.interrupts)
            question = question if isinstance(question, str) else await whole(question)
            question = f"\n\n{question}" if text else question
            await self._send_chunk(reply.delta(question))
            text += question
        if not self._is_streamed:
            await _send_json(self._send, 200, reply.completion(text))
            return
        for chunk in reply.ends(wants_usage=self._asked is not None and self._asked.wants_usage):
            await self._send_chunk(chunk)
        await self._send_end(b"data: [DONE]\n\n")

    async def _fail(self, status: int, message: str, code: str) -> None:
        """End with an error: with a status, or in the stream that has begun."""
        if self._is_streamed:
            await self._send_end(b"data: " + to_json(_error(message, code)) + b"\n\n")
        else:
            await _send_error(self._send, status, message, code=code, headers=_NO_RETRY)

    async def _refuse(self) -> None:
        """Send a refusal of the app in OpenAI's form."""
        reason: Any = from_json(bytes(self._refusal)).get("detail") if self._refusal else None
        kept = {name: value for name, value in self._headers.items() if name not in ("content-type", "content-length")}
        await _send_error(self._send, self._status, reason, headers=kept)

    async def _send_chunk(self, chunk: Mapping[str, Any]) -> None:
        await self._send_streamed(b"data: " + to_json(chunk) + b"\n\n")

    async def _send_streamed(self, body: bytes) -> None:
        """Send a part of a streamed response; a response that is not streamed has none."""
        if self._is_streamed:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def _send_end(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body})


_CODES = {401: "invalid_api_key", 404: "model_not_found"}


def _error(message: object, code: str) -> dict[str, Any]:
    text = message if isinstance(message, str) else json.dumps(message)
    return {"error": {"message": text, "type": "agent_error", "param": None, "code": code}}


async def _send_error(
    send: Send, status: int, message: object, *, code: str = "", headers: Mapping[str, str] | None = None
) -> None:
    await _send_json(send, status, _error(message, code or _CODES.get(status, "invalid_request")), headers)


async def _send_json(send: Send, status: int, value: object, headers: Mapping[str, str] | None = None) -> None:
    await begin_response(send, status, {"content-type": "application/json", **(headers or {})})
    await send({"type": "http.response.body", "body": to_json(value)})
