"""Delivery: post a run until the server responds with an event stream, and record every attempt (SSE-3, SSE-8).

Another attempt is made only before the agent has begun: after a refreshed credential, to where the same origin points,
or as the retry policy allows. A redirect that would change the POST or its body is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from http import HTTPStatus

import anyio
import httpx

from agui_client import errors
from agui_client._core.ground.secrets import address_of, hidden_text, is_secret_header, without_sent
from agui_client._core.transport import response as responses
from agui_client._core.transport.client import Attempt, ClientRequest, Transport, origin_of
from agui_client._core.transport.clock import Clock
from agui_client._core.transport.credentials import Headers, UnauthorizedContext
from agui_client._core.transport.response import Body
from agui_client._core.transport.retry import BUSY_STATUSES
from agui_client._core.transport.sse import EVENT_STREAM, Framer
from agui_client._core.transport.timeouts import Timeouts
from agui_client.errors import AGUIError, HTTPStatusError, TransportError

_logger = logging.getLogger("agui_client.transport")
_BUSY = "retry=RetryPolicy(status=3) posts the run again when a Retry-After allows it"
_ADVICE = {
    403: "the credentials in headers= or auth= do not allow this",
    409: "if a run is in progress in the thread, clone(thread_id=...) is for parallel work",
    **dict.fromkeys(BUSY_STATUSES, _BUSY),
}
"""The options to change after a refusal."""
_NOT_HERE = (404, 405)
"""Statuses that mean another address, or another method."""
_MAX_REDIRECTS = 5
_SNIPPET = 512


class Delivery:
    """The attempts of one run.

    Args:
        transport: The way to the agent.
        request: The request to post.
    """

    def __init__(self, transport: Transport, request: ClientRequest) -> None:
        self.attempts: list[Attempt] = []
        """The attempts so far, in order."""
        self.response: responses.ResponseInfo | None = None
        """The latest response; None before the first one's headers are there."""
        self.may_have_started = False
        """Whether the agent may have begun to work."""
        self.connect_seconds: float | None = None
        """Seconds from the first attempt to the headers of the accepted response; None before they arrive."""
        self._transport, self._request = transport, request
        self._clock: Clock
        self._url = request.url or transport.url
        self._credentials = transport.credentials_for(self._url)
        self._wanted = responses.JSON if request.is_document else EVENT_STREAM
        self._redirected_to: httpx.URL | None = None
        self._status: int | None = None
        self._sent = httpx.Headers()
        self._redirects, self._generation, self._is_renewed = 0, 0, False
        self._refusals, self._failures = 0, 0

    async def deliver(self, client: httpx.AsyncClient, clock: Clock) -> Body:
        """Post the run.

        Args:
            client: The HTTP client.
            clock: The run's time limits.

        Returns:
            The event stream that came back, not yet read.

        Raises:
            TransportError: The server did not accept it; `attempts` lists every attempt.
            StopAsyncIteration: The run was interrupted.
        """
        self._clock = clock
        body = await self._delivered(client, "first attempt")
        self.connect_seconds = clock.elapsed
        return body

    async def reconnect(self, client: httpx.AsyncClient, request: ClientRequest, reason: str) -> Body:
        """Reconnect to a run whose stream was cut, with a request that starts none.

        Args:
            client: The HTTP client.
            request: The request; it is not repeated here if no connection can be made, or the server is busy.
            reason: The reason for it, for the record.

        Returns:
            The event stream that came back, not yet read.

        Raises:
            TransportError: The server did not accept it.
            StopAsyncIteration: The run was interrupted.
        """
        self._request, self._url = request, request.url or self._transport.url
        self._redirects, self._is_renewed = 0, False
        return await self._delivered(client, reason)

    async def _delivered(self, client: httpx.AsyncClient, reason: str) -> Body:
        while True:
            try:
                return await self._attempt(client, reason)
            except TransportError as error:
                # `_send` knows whether the request went out, the error whether it was refused before the agent began; a
                # refusal to take up a run says nothing about the run.
                is_certain = not (error.may_have_started or self._request.is_reconnect)
                self.may_have_started = self.may_have_started and not is_certain
                following = await self._reason_to_repeat(error)
                if following is None:
                    raise
                reason = following

    async def _attempt(self, client: httpx.AsyncClient, reason: str) -> Body:
        began, number, observer = self._clock.elapsed, len(self.attempts) + 1, self._request.observer
        failure: str | None = "stopped"
        cause: Exception | None = None
        added: Mapping[str, str] = {} if observer is None else observer.attempt_start(number, str(self._url))
        try:
            body, failure = await self._send(client, added), None
            return body
        except StopAsyncIteration:
            raise
        except Exception as error:
            # Exceptions of the application's own functions may quote credentials.
            failure = str(error) if isinstance(error, AGUIError) else type(error).__name__
            cause = None if self._redirected_to else error
            raise
        finally:
            attempt = Attempt(
                reason,
                address_of(self._url),
                self._clock.elapsed - began,
                self._status,
                failure,
                method=self._request.method,
                is_reconnect=self._request.is_reconnect,
            )
            self.attempts.append(attempt)
            if observer is not None:
                observer.attempt_end(attempt, cause)
            # Not the error's text, which may quote what the server wrote.
            outcome = "accepted" if failure is None else self._status or "no response"
            _logger.debug("attempt %d: %s; %s", number, reason, outcome)

    async def _send(self, client: httpx.AsyncClient, added: Mapping[str, str]) -> Body:
        clock, request, transport = self._clock, self._request, self._transport
        self._redirected_to, self._status = None, None
        self._credentials = transport.credentials_for(self._url)
        self._generation = self._credentials.generation
        sent = await self._credentials.headers(self._headers_of_run(), clock)
        if added:
            sent.update(added)
        self._sent = sent.copy()
        clock.secrets.add_request(str(self._url), sent.multi_items())
        # After the credentials: a person may have been asked for them, and that time is not the server's.
        clock.restart()
        self.may_have_started = True
        response = await clock.wait_for_response(transport.send(client, self._url, sent, request))
        # Those that an auth and the HTTP client have added.
        added_later = {*response.request.headers.multi_items()}.difference(self._sent.multi_items())
        clock.secrets.add_request(str(response.request.url), added_later)
        self._status = response.status_code
        # The names of all headers help to find a proxy in between; their values may be cookies and tokens.
        self.response = responses.info_of(response, clock.secrets)
        return await self._accepted(response)

    def _headers_of_run(self) -> Headers | None:
        headers = self._request.headers
        if not headers or not self._request.is_reconnect or self._transport.is_of_agent(self._url):
            return headers
        # They were given for the run, and it is another server that takes it up.
        return {name: value for name, value in headers.items() if not is_secret_header(name)}

    async def _accepted(self, response: httpx.Response) -> Body:
        """Return the body if the response is what was asked for; otherwise close it and raise."""
        body, request = Body(response), self._request
        takes_json = request.is_replay and (response.status_code == 204 or responses.is_of(response, responses.JSON))
        if takes_json or responses.is_of(response, self._wanted):
            return body
        try:
            raise self._refusal(response, await body.read_text(self._clock))
        finally:
            await body.aclose()

    def _refusal(self, response: httpx.Response, body: str) -> TransportError:
        """Return the error for a response that is not an event stream: the run never started (SSE-3, SSE-8)."""
        sent = self._clock.secrets
        body, said = hidden_text(body, sent), hidden_text(response.reason_phrase, sent)
        where = f"{address_of(response.url)} responded with {response.status_code} {said}".rstrip()
        if response.is_success:
            media_type, body = hidden_text(responses.media_type_of(response), sent), body[:_SNIPPET]
            what = f"{where} and {media_type or 'no content type'} instead of {self._wanted}, beginning with {body!r}"
            unexpected = errors.UnexpectedContentTypeError(what, content_type=media_type, body=body)
            unexpected.fix = "is this the agent's address?"
            return unexpected
        location = None
        if response.next_request is not None:
            url = response.next_request.url
            refusal = self._refusal_to_follow(response.status_code, url)
            # A password in the redirect's address is not the agent's.
            self._redirected_to = None if refusal else url.copy_with(userinfo=self._url.userinfo)
            location = without_sent(address_of(url), sent)
            where += f" and points to {location}{refusal}"
        message = f"{where}: {body[:_SNIPPET]}" if body else where
        headers = responses.headers_to_show(response, sent)
        error = HTTPStatusError(
            message, status_code=response.status_code, body=body, headers=headers, location=location
        )
        error.fix = self._advice_on(response.status_code)
        return error

    def _advice_on(self, status: int) -> str | None:
        """Return what to do about a refusal; None if its status does not say."""
        request = self._request
        if status in _NOT_HERE and not (request.is_document or request.is_reconnect):
            return f"is this the address that {'sends threads again' if request.is_replay else 'takes runs'}?"
        if status == HTTPStatus.METHOD_NOT_ALLOWED and request.is_reconnect and not request.body:
            return "the server takes up no run at the agent's own url: name the address that does with connect_url="
        if status != HTTPStatus.UNAUTHORIZED:
            advice = _ADVICE.get(status)
            return None if advice is _BUSY and self._transport.retry.status else advice
        if self._is_renewed:
            return "on_unauthorized= has renewed the credentials, and the server refuses the new ones, too"
        if not self._transport.is_of_agent(self._url):
            return (
                "another origin than the agent's gets no credentials but those in its address or in the call's headers"
            )
        if self._credentials.are_renewable:
            return "the credentials are those of the run's own headers=, which on_unauthorized= does not renew"
        return "give credentials in headers= or auth=, or renew them in on_unauthorized="

    async def _reason_to_repeat(self, error: TransportError) -> str | None:
        """Wait until another attempt is due, and return the reason for it; None if there is none."""
        if isinstance(error, HTTPStatusError):
            credentials = self._credentials
            # Once only: a server that refuses renewed credentials would refuse them for ever.
            if error.status_code == 401 and not self._is_renewed and credentials.can_renew(self._request.headers):
                self._is_renewed = True
                context = UnauthorizedContext(error, len(self.attempts), dict(self._sent))
                await self._clock.wait_for_caller(credentials.refresh(self._generation, context))
                return "401, and the credentials were renewed"
            if self._redirected_to is not None:
                self._redirects += 1
                self._url = self._redirected_to
                return f"redirected with {error.status_code}"
        return await self._pause_before_repeating(error)

    async def _pause_before_repeating(self, error: TransportError) -> str | None:
        if self._request.is_reconnect:
            return None
        policy, is_refusal = self._transport.retry, isinstance(error, HTTPStatusError)
        repeated = self._refusals if is_refusal else self._failures
        if repeated >= policy.allowance(error):
            return None
        self._refusals += is_refusal
        self._failures += not is_refusal
        seconds = policy.wait_before(repeated + 1, error)
        # An attempt that could only be late is not waited for: the refusal says more than a time-out.
        if seconds >= self._clock.remaining:
            return None
        await self._clock.wait_for_caller(anyio.sleep(seconds))
        what = f"{error.status_code}, Retry-After" if isinstance(error, HTTPStatusError) else "no connection"
        return f"{what}; waited {seconds:.2f} s"

    def _refusal_to_follow(self, status: int, url: httpx.URL) -> str:
        """Return the reason for which a redirect is not followed; empty if it is."""
        if origin_of(url) != origin_of(self._url):
            unasked = "neither the conversation nor credentials are sent there unasked"
            return f", another origin; {unasked}: use that address if it is the agent's"
        if status not in (307, 308):
            return ", but the POST would become a GET there: use that address"
        return "" if self._redirects < _MAX_REDIRECTS else f", and {_MAX_REDIRECTS} redirects were followed already"


async def fetch(
    transport: Transport, url: httpx.URL, timeouts: Timeouts, posted: bytes = b"", *, headers: Headers | None = None
) -> bytes:
    """Get a JSON document beside an agent, with the agent's credentials and retries.

    Args:
        transport: The way to the agent.
        url: The address of the document.
        timeouts: The time limits; the one for the first event is that for the response.
        posted: The JSON to post; empty to ask with GET.
        headers: Headers that stand over the agent's.

    Returns:
        The document, not yet read as JSON.

    Raises:
        TransportError: The server did not send a document.
        StreamTooLargeError: The document is larger than an event may be.
    """
    most, content = transport.max_event_bytes, bytearray()
    request = ClientRequest(body=posted, url=url, is_document=True, headers=headers, timeouts=timeouts)
    clock = Clock(timeouts, Framer(most), address_of(url))
    async with AsyncExitStack() as stack:
        stack.callback(clock.close)
        client = await transport.clients.lend(stack)
        body = await Delivery(transport, request).deliver(client, clock)
        stack.push_async_callback(body.aclose)
        clock.latest_frame = ""  # the response has begun: what is late from here on is not a first event
        try:
            await body.read_into(content, most + 1, clock, clock.idle_seconds)
        except AGUIError:
            raise
        except Exception as error:
            clock.fail(error)
    if len(content) > most:
        raise errors.StreamTooLargeError(f"the document has more than max_event_bytes={most}", rule="SSE-12")
    return bytes(content)
