"""HttpAgent: an agent at a URL, spoken to with one POST per run and an SSE stream back."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Unpack

from ag_ui.core import AgentCapabilities
from pydantic import ValidationError

from agui_client._core.agent.agent import AbstractAgent, as_run_input
from agui_client._core.conversation.state_base import with_base
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.run.options import BY_REQUEST, lists_keywords
from agui_client._core.run.scope import CURRENT_SCOPE, AgentOptions, StateT
from agui_client._core.transport.client import (
    DEFAULT_MAX_EVENT_BYTES,
    DEFAULT_MAX_RUN_BYTES,
    AuthSource,
    ClientRequest,
    Transport,
)
from agui_client._core.transport.clients import ClientSource
from agui_client._core.transport.credentials import Credentials, HeaderSource, Refresh
from agui_client._core.transport.retry import RetryPolicy
from agui_client._core.transport.timeouts import Timeouts
from agui_client.errors import DecodeError, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Literal, Self

    from ag_ui.core import RunAgentInput

    from agui_client._core.agent.reconnect import ReconnectPolicy
    from agui_client._core.agent.server_runs import RunsClient
    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.run.options import RunOptions
    from agui_client._core.transport.client import Address
    from agui_client._core.transport.http_source import HttpSource
    from agui_client._core.transport.in_process import ASGIApp
    from agui_client._core.transport.resuming import ReconnectPlan


@lists_keywords(AgentOptions)
class HttpAgent(AbstractAgent[StateT]):
    """A remote AG-UI agent.

    Inside `async with agent:`, later runs use the connections of earlier ones again. Otherwise nothing stays open
    between runs, not even inside `with agent:`, which is for the sync verbs. Two runs at the same time never share an
    HTTP client, unless `http_client=` gives them one.

    Args:
        url: The address that takes runs.
        headers: Request headers, or a function, sync or async, that gives them anew for each attempt.
        auth: Any `httpx.Auth`, or (user, password).
        on_unauthorized: Called, sync or async, when the server refuses these credentials with 401: it renews them, and
            the run is posted once more. It may take an `UnauthorizedContext`, and returns the headers to use from now
            on, or None to have `headers` called again. Credentials in a run's own `headers=` are not renewed.
        timeout: Seconds for every wait but the total, or a `Timeouts`.
        retry: The policy for trying again; by default only requests that could not be sent, see `RetryPolicy`. A number
            repeats those, and refusals with a `Retry-After`, that many times.
        http_client: An `httpx.AsyncClient` or `httpx2.AsyncClient` of your own, or a function that makes one for each
            run. A client belongs to one event loop; give a function when runs happen in several. Redirects are followed
            within the origin if the POST stays one (307, 308), whatever the client would do, and reported otherwise.
        app: An ASGI app in this process that is called instead of a server; its responses stream, and what happens to
            it is as if it stood behind a socket. For its lifespan, give a client with `agui_client.asgi.ASGITransport`.
        reconnect: The policy for taking up a stream that was cut, such as `LastEventId()` of `agui_client.reconnect`.
            "auto" takes it up where the server says that its runs continue, as an `agent_app` that keeps runs does;
            elsewhere a cut stream is an error, as it is with None. A run is never posted again.
        connect_url: The address that sends a thread again, as events or as one JSON document with `messages` and
            `state`; see `connect_agent`. It is absolute or relative to `url`, as a link is: "connect" for an app of
            `agent_app` whose `url` ends in a slash.
        capabilities_url: The address of the agent's `AgentCapabilities` as JSON, absolute or relative to `url`; see
            `capabilities`. Another origin than that of `url` gets no credentials, here and at `connect_url`, but those
            in its address, and in `headers=` of the call.
        max_protocol_version: The newest version that the server is known to speak, such as "0.0.57", if that is older
            than 1.0; the input is turned into a shape that it understands (VER-5).
        max_event_bytes: The largest event that is accepted, in bytes.
        max_run_bytes: The most bytes that a run may bring, counted after decompression; None for no bound.
        options: See `AgentOptions`.

    Raises:
        UsageError: An option has a value that it does not take, an address cannot be read, or `connect_url` is `url`.
    """

    is_local = False
    goes_on_alone = True
    takes: ClassVar[frozenset[str]] = BY_REQUEST | {"timeout"}  # a request keeps its own time

    def __init__(
        self,
        url: str,
        *,
        headers: HeaderSource | None = None,
        auth: AuthSource | None = None,
        on_unauthorized: Refresh | None = None,
        timeout: float | Timeouts | None = None,
        retry: RetryPolicy | int | None = None,
        http_client: ClientSource | None = None,
        app: ASGIApp | None = None,
        reconnect: ReconnectPolicy | Literal["auto"] | None = "auto",
        connect_url: str | None = None,
        capabilities_url: str | None = None,
        max_protocol_version: str | None = None,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
        max_run_bytes: int | None = DEFAULT_MAX_RUN_BYTES,
        **options: Unpack[AgentOptions[StateT]],
    ) -> None:
        super().__init__(**options)
        self.url = url
        """The address that takes runs."""
        self._timeouts = Timeouts.of(timeout)
        if max_protocol_version is not None:
            from agui_client._core.protocol.verify import version_key

            # Only for its exception: a version that cannot be read is refused here, and not by the first run.
            version_key(max_protocol_version)
        self._max_protocol_version = max_protocol_version
        if app is not None:
            from agui_client._core.transport.in_process import client_of

            http_client = client_of(app, http_client)
        self._transport = Transport(
            url,
            auth=auth,
            credentials=Credentials(headers, on_unauthorized),
            retry=retry,
            http_client=http_client,
            max_event_bytes=max_event_bytes,
            max_run_bytes=max_run_bytes,
        )
        self._connect_url = None if connect_url is None else self._elsewhere(connect_url)
        self._is_resumed_if_kept, self._reconnect = reconnect == "auto", None
        if reconnect is not None and reconnect != "auto":
            _check_policy(reconnect, self._connect_url)
            self._reconnect = reconnect
        if capabilities_url is not None and options.get("capabilities") is not None:
            raise UsageError("give capabilities= or capabilities_url=, not both")
        self._capabilities_url = None if capabilities_url is None else self._transport.resolve(capabilities_url)

    def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Post one run.

        Args:
            input: What is asked.

        Returns:
            Its events as they come over the wire, not yet judged; close it if you leave it early.
        """
        # No generator, which each event would pass through: the engine reads, interrupts and closes the source itself.
        return self._post(as_run_input(input))

    def connect(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Have the server send the thread again, with a POST to `connect_url`, or as the policy of `reconnect=` says.

        Args:
            input: The thread, with the messages that the client has.

        Returns:
            Its events as they come over the wire, not yet judged; close it if you leave it early.

        Raises:
            UsageError: The agent has no `connect_url`.
        """
        if not self._has_connect_address:
            raise UsageError("this agent has no way to reconnect: give it connect_url=, or override connect()")
        return self._post(input, is_replay=True)

    @property
    def can_connect(self) -> bool:
        """Whether the agent has a way to send a thread again."""
        # A subclass that overrides `connect` needs neither an address nor a policy.
        return self._has_connect_address or type(self).connect is not HttpAgent.connect

    @property
    def _has_connect_address(self) -> bool:
        by_policy = self._reconnect is not None and self._reconnect.can_connect
        return self._connect_url is not None or by_policy or self._transport.keeps_runs

    async def capabilities(self) -> AgentCapabilities | None:
        """Return what the agent declares to be able to do: the document at `capabilities_url`, or `capabilities=`.

        The document is fetched anew with each call, with the agent's credentials, time-outs and retries. No run needs
        it (CAP-4).

        Returns:
            The declaration; None if the agent was made with neither.

        Raises:
            DecodeError: The document is not JSON, or a member that the protocol describes has another form (CAP-3).
            TransportError: No document arrived.
        """
        if self._capabilities_url is None:
            return await super().capabilities()
        from agui_client._core.transport.delivery import fetch

        document = await fetch(self._transport, self._capabilities_url, self._timeouts)
        try:
            return AgentCapabilities.model_validate_json(document, strict=True, by_alias=True, by_name=False)
        except ValidationError as invalid:
            refused = "; ".join(f"{'/'.join(map(str, each['loc']))}: {each['msg']}" for each in invalid.errors())
            raise DecodeError(f"the agent's capabilities cannot be used: {refused}", rule="CAP-3") from None

    def _post(self, input: RunAgentInput, *, is_replay: bool = False) -> HttpSource:
        from agui_client._core.protocol.request import request_body
        from agui_client._core.transport.http_source import HttpSource

        scope = CURRENT_SCOPE.get()
        is_own = scope is not None and scope.owner is self
        options = self.call_options  # headers that are meant for one server are never sent to another
        if is_own and not is_replay and (base := self._conversation.state_base) is not None:
            # No other server gets it: some hand these properties on to models, or refuse those that they do not know.
            props = with_base(input.forwarded_props, base)
            input = input.model_copy(update={"forwarded_props": props})
        request = ClientRequest(
            body=request_body(input),
            url=self._connect_address if is_replay else None,
            run_id=None if is_replay else input.run_id,
            is_replay=is_replay,
            headers=options.get("headers"),
            timeouts=self._timeouts_of(options),
            until=math.inf if scope is None else scope.until,
            observer=scope,
        )
        warnings = WarningLog() if scope is None else scope.warnings
        warnings.secrets.ids += (input.thread_id, input.run_id)
        policy = self._reconnect
        plan: ReconnectPlan | Callable[[], ReconnectPlan] | None = None
        if self._is_resumed_if_kept:
            plan = partial(self._plan_if_kept, request, input, is_replay)
        elif policy is not None:
            if is_replay and policy.can_connect:
                # A message that was cut is not a reply yet.
                whole = [each for each in input.messages if each.id not in self._conversation.incomplete_ids]
                input = input.model_copy(update={"messages": whole})
                request = policy.connecting(request, input)
            plan = policy.plan(request, input, self._connect_url, is_replay=is_replay)
        if plan is None:
            source = HttpSource(self._transport, request, warnings)
        else:
            from agui_client._core.transport.resuming import ResumableSource

            source = ResumableSource(self._transport, request, warnings, plan)
        if scope is not None:
            # Also a request of an agent inside the run, or one that middleware forgot: the run closes all of them.
            scope.requests.append(source)
        return source

    def _plan_if_kept(self, request: ClientRequest, input: RunAgentInput, is_replay: bool) -> ReconnectPlan:
        from agui_client._core.agent.reconnect import LastEventId

        return LastEventId().plan(request, input, self._connect_address, is_replay=is_replay)

    @property
    def _connect_address(self) -> Address:
        """The address that sends threads again, which servers that keep runs have below the agent's."""
        return self._connect_url or self._transport.below("connect")

    def _timeouts_of(self, options: RunOptions) -> Timeouts:
        return Timeouts.of(options["timeout"]) if "timeout" in options else self._timeouts

    def _elsewhere(self, connect_url: str) -> Address:
        """Return the address that sends threads again; the address of runs would start one."""
        address = self._transport.resolve(connect_url)
        # By these parts: a fragment is not sent, and credentials in an address do not make it another one.
        both = (address, self._transport.url)
        if len({(each.scheme, each.host, each.port, each.path, each.query) for each in both}) == 1:
            raise UsageError(
                "connect_url is empty, or means the agent's own url, where connecting would start a run; give the "
                "address that sends a thread again, or None if there is none"
            )
        return address

    def clone(
        self,
        *,
        thread_id: str | None = None,
        headers: HeaderSource | None = None,
        auth: AuthSource | None = None,
        on_unauthorized: Refresh | None = None,
    ) -> Self:
        """Return the same agent with a copy of the conversation, for a second line of thought or another user.

        Args:
            thread_id: The copy's thread; the same one if left out. A server that remembers threads wants another.
            headers: The other user's headers. With any of these three, the copy has credentials of its own, and uses
                neither this agent's nor those in its address or HTTP client; without, both share one set.
            auth: The other user's `httpx.Auth`, or (user, password).
            on_unauthorized: Renews the other user's credentials.
        """
        twin = super().clone(thread_id=thread_id)
        # All three at once: with this agent's headers beside another user's `auth=`, one would act for the other.
        if any(each is not None for each in (headers, auth, on_unauthorized)):
            twin._transport = self._transport.with_credentials(auth, Credentials(headers, on_unauthorized))
        return twin

    @property
    def runs(self) -> RunsClient:
        """The caller's runs that the server keeps: list, follow, stop and answer them, also those of other threads."""
        from agui_client._core.agent.server_runs import RunsClient

        return RunsClient(self._transport, self._timeouts)

    async def aclose(self) -> None:
        """Close the connections that an `async with` block keeps."""
        await self._transport.clients.drop()

    async def __aenter__(self) -> Self:
        self._transport.clients.keep()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        # Each sync verb has an event loop of its own, with which its connections are closed: nothing stays open here.
        return self

    def __exit__(self, *_: object) -> None: ...

    # httpx imports its transport with the first client: in the event loop of the first run, deaf to Ctrl-C meanwhile.
    _needs = (
        *AbstractAgent._needs,
        "agui_client._core.transport.http_source",
        "agui_client._core.agent.reconnect",
        "httpcore",
    )

    def _address(self) -> str:
        return self._transport.address


def _check_policy(policy: object, connect_url: Address | None) -> None:
    """Refuse what is not a policy, and a policy that lacks the agent's `connect_url`.

    Raises:
        UsageError: The policy cannot be used.
    """
    from agui_client._core.agent.reconnect import ReconnectPolicy

    if not isinstance(policy, ReconnectPolicy):
        raise UsageError(f"reconnect= takes a policy, such as LastEventId(), not {policy!r}")
    if policy.needs_connect_url and connect_url is None:
        raise UsageError(f"{policy!r} needs connect_url=: a POST to the agent's own url would start the run again")
