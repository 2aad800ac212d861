"""Delivery: posting a run until it is answered with an event stream, and saying what was tried (SSE-3, SSE-8).

Another attempt is made only before anything was begun: after a refreshed credential, to where the same origin points,
or as the retry policy allows. The POST and its body stay what they are, or the redirect is refused.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import httpx

from agui_client._pipeline.threads import whole
from agui_client._pipeline.transport.body import Body
from agui_client._pipeline.transport.client import Request, Transport, address_of
from agui_client._pipeline.transport.response import (
    EVENT_STREAM,
    ResponseInfo,
    describe,
    headers_to_show,
    is_event_stream,
    media_type_of,
)
from agui_client.errors import AGUIError, HTTPStatusError, TransportError, UnexpectedContentTypeError

if TYPE_CHECKING:
    from agui_client._pipeline.tracing import AttemptTrace
    from agui_client._pipeline.transport.clock import Clock

_logger = logging.getLogger("agui_client.transport")
_NO_CONTENT = 204
_UNAUTHORIZED = 401
_HOPEFUL = (_UNAUTHORIZED, 429, 503)
"""Statuses about which something can be done; the error says what."""
_KEEPING_METHOD = (307, 308)
_MAX_REDIRECTS = 5
_SNIPPET = 512


@dataclass(frozen=True, slots=True)
class Attempt:
    """One POST of a run, and what became of it."""

    reason: str
    """Why it was made: "first attempt", or what went before."""
    address: str
    """Where it went, without user, password and query."""
    seconds: float
    """Until its response's headers were there, or it failed."""
    status_code: int | None = None
    """The HTTP status; None without a response."""
    error: str | None = None
    """Why it came to nothing; None when an event stream came back."""


class Delivery:
    """The attempts of one run.

    Args:
        transport: Where to post.
        request: What to post.
        clock: The run's time limits.
    """

    def __init__(self, transport: Transport, request: Request, clock: Clock) -> None:
        self.attempts: list[Attempt] = []
        """What was tried so far, in order."""
        self.response: ResponseInfo | None = None
        """The latest response; None before the first one's headers are there."""
        self.may_have_started = False
        """Whether the agent may have begun to work."""
        self._transport = transport
        self._request = request
        self._clock = clock
        self._url = request.url or transport.url
        self._points_to: httpx.URL | None = None
        self._status: int | None = None
        self._redirects = 0
        self._is_renewed = False
        self._generation = 0
        self._repeated: Counter[bool] = Counter()

    async def deliver(self, client: httpx.AsyncClient) -> Body:
        """Post the run.

        Args:
            client: Sends it.

        Returns:
            The event stream that came back, not yet read.

        Raises:
            TransportError: It was not accepted; every attempt is noted in `attempts`.
            StopAsyncIteration: The run was interrupted.
        """
        reason = "first attempt"
        while True:
            try:
                return await self._attempt(client, reason)
            except TransportError as error:
                self.may_have_started = self.may_have_started and error.may_have_started
                following = await self._reason_to_go_on(error)
                if following is None:
                    if isinstance(error, HTTPStatusError) and error.status_code in _HOPEFUL:
                        error.add_note(self._transport.retry.explain(error))
                    raise
                reason = following

    async def _attempt(self, client: httpx.AsyncClient, reason: str) -> Body:
        clock = self._clock
        began = clock.elapsed
        self._points_to, self._status = None, None
        trace = self._request.trace.attempt(number=len(self.attempts) + 1, method="POST", url=str(self._url))
        failure: str | None = "stopped"
        try:
            body = await self._send(client, trace)
        except StopAsyncIteration:
            raise
        except Exception as error:
            # What the application's own functions raise may quote credentials.
            failure = str(error) if isinstance(error, AGUIError) else type(error).__name__
            trace.end(status_code=self._status, error=None if self._next_url() else error)
            raise
        else:
            failure = None
            return body
        finally:
            trace.end(status_code=self._status)
            seconds = clock.elapsed - began
            self.attempts.append(Attempt(reason, address_of(self._url), seconds, self._status, failure))
            _logger.debug("attempt %d: %s; %s", len(self.attempts), reason, self._in_a_word(failure))

    def _in_a_word(self, failure: str | None) -> str:
        """What an attempt came to, for logs: its text may quote what the server said."""
        return "accepted" if failure is None else str(self._status or "no response")

    async def _send(self, client: httpx.AsyncClient, trace: AttemptTrace) -> Body:
        clock, request, transport = self._clock, self._request, self._transport
        self._generation = transport.credentials.generation
        headers = await transport.credentials.headers(request.headers, clock, is_renewed=self._is_renewed)
        headers.update(trace.headers())
        clock.restart()
        self.may_have_started = True
        with trace.current():
            response = await clock.wait(whole(transport.send(client, self._url, headers, request)))
        self._status = response.status_code
        self.response = describe(response)
        return await self._accepted(response)

    async def _accepted(self, response: httpx.Response) -> Body:
        """The body, if the response is an event stream or may be none; otherwise it is closed and refused."""
        body = Body(response)
        if is_event_stream(response) or (self._request.may_find_nothing and response.status_code == _NO_CONTENT):
            return body
        try:
            raise self._refusal(response, await body.read_text(self._clock))
        finally:
            with anyio.CancelScope(shield=True):
                await body.aclose()

    def _refusal(self, response: httpx.Response, body: str) -> TransportError:
        """What is no event stream: an HTTP status means that the run never started (SSE-3, SSE-8)."""
        where = f"{address_of(response.url)} answered {response.status_code} {response.reason_phrase}".rstrip()
        if response.is_success:
            media_type = media_type_of(response)
            return UnexpectedContentTypeError(
                f"{where} with {media_type or 'no content type'} instead of {EVENT_STREAM}; is this the agent's "
                f"address? The body starts: {body[:_SNIPPET]!r}",
                content_type=media_type,
                body=body[:_SNIPPET],
            )
        if response.next_request is not None:
            self._points_to = response.next_request.url
            refusal = self._refusal_to_follow(response.status_code, self._points_to)
            where += f" and points to {address_of(self._points_to)}{refusal or ''}"
        return HTTPStatusError(
            f"{where}: {body[:_SNIPPET]}" if body else where,
            status_code=response.status_code,
            body=body,
            headers=headers_to_show(response),
        )

    async def _reason_to_go_on(self, error: TransportError) -> str | None:
        """Why there is another attempt after this error, once it is due; None if there is none."""
        if isinstance(error, HTTPStatusError):
            if error.status_code == _UNAUTHORIZED and self._transport.credentials.can_refresh and not self._is_renewed:
                self._is_renewed = True
                await self._transport.credentials.refresh(self._clock, self._generation)
                return "401, and the credentials were renewed"
            if (following := self._next_url()) is not None:
                self._redirects += 1
                self._url = following
                return f"redirected with {error.status_code}"
        return await self._pause_before_repeating(error)

    async def _pause_before_repeating(self, error: TransportError) -> str | None:
        policy, is_refusal = self._transport.retry, isinstance(error, HTTPStatusError)
        if self._repeated[is_refusal] >= policy.allowance(error):
            return None
        self._repeated[is_refusal] += 1
        seconds = policy.wait_before(self._repeated[is_refusal], error)
        if seconds >= self._clock.left:
            return None
        await self._clock.pause(seconds)
        what = f"{error.status_code}, Retry-After" if isinstance(error, HTTPStatusError) else "no connection"
        return f"{what}; waited {seconds:.2f} s"

    def _next_url(self) -> httpx.URL | None:
        """Where the latest response leads; None if it leads nowhere, or where it is not followed."""
        status, url = self._status, self._points_to
        if status is None or url is None or self._refusal_to_follow(status, url) is not None:
            return None
        # A password there is not the agent's.
        return url.copy_with(userinfo=self._url.userinfo)

    def _refusal_to_follow(self, status: int, url: httpx.URL) -> str | None:
        """Why a redirect is not followed; None if it is."""
        if _origin(url) != _origin(self._url):
            return (
                ", another origin; neither the conversation nor credentials are sent there unasked: use that address "
                "if it is the agent's"
            )
        if status not in _KEEPING_METHOD:
            return ", but the POST would become a GET there: use that address"
        return None if self._redirects < _MAX_REDIRECTS else f", and {_MAX_REDIRECTS} redirects were followed already"


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)
