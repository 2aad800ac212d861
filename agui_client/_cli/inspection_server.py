"""`agui inspect URL`: a proxy in front of a remote agent that records what passes, and a page that follows the runs."""

from __future__ import annotations

import webbrowser
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, MutableMapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import anyio
import anyio.to_thread
from ag_ui.core import RunAgentInput, RunErrorEvent

from agui_client._cli.exit_codes import ExitCode
from agui_client._cli.serve import listening, serve_app
from agui_client._core.agent.http_agent import HttpAgent
from agui_client._core.ground.files import write_private
from agui_client._core.ground.secrets import address_of
from agui_client._core.protocol.patch import parse_json
from agui_client._core.run.middleware import ObservedSource
from agui_client._core.transport.http_source import HttpSource
from agui_client._core.transport.source import as_source
from agui_client._core.transport.timeouts import Timeouts
from agui_client._core.verbs.sse import KEEP_ALIVE
from agui_client.asgi import AgentApp, AppLimits, RequestRefusedError, ServedRequest
from agui_client.asgi._responses import begin_response, cancel_on_disconnect
from agui_client.errors import AGUIError, HTTPStatusError
from agui_client.inspector._live_rows import LiveRows
from agui_client.inspector._page import parts_of
from agui_client.recording import Recorder, record
from agui_client.recording._format import AgentRecord

if TYPE_CHECKING:
    from agui_client._core.ground.prices import Prices
    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.transport.in_process import Receive, Send

_HOST = "127.0.0.1"
_NOT_PASSED_ON = frozenset(
    (
        *("accept", "accept-encoding", "cache-control", "content-length", "content-type"),
        *("connection", "expect", "host", "keep-alive", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""The headers of a caller that are about its connection, or that the client sets."""
_PATIENT = Timeouts(first_event=None, idle=None)
"""The time limits of requests that are passed on: how long to wait for events is the caller's decision."""
_MOST_BODY_BYTES = 64 * 1024 * 1024
"""The largest input that is passed on, in bytes: more than most agents take, for the limit is the agent's to set."""
_OF_PATHS = "/%:@!$&'()*+,;=~"
"""Characters that stay as they are in a path, besides letters, digits and `-._` (RFC 3986, 3.3)."""
_LOOK_SECONDS, _SILENT_LOOKS = 0.1, 150
_MOST_ROWS = 1000
"""The number of rows that a page gets at once."""
_SECURE = {"cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}


def inspect_agent(
    url: str, port: int, record_to: Path | None, out: Path | None, *, is_opening: bool, prices: Prices | None
) -> int:
    """Serve the page and the proxy until Ctrl-C, which counts as success.

    Args:
        url: The agent's address.
        port: The port to listen on; 0 takes a free one.
        record_to: The file to record to; one that is deleted at the end if None.
        out: The page to write at the end; None for no page.
        is_opening: Whether the page is opened in the browser.
        prices: The prices of tokens.

    Returns:
        The exit code.

    Raises:
        UsageError: The address cannot be read.
    """
    HttpAgent(url)
    with TemporaryDirectory() as folder, listening(_HOST, port, "name another with --port") as listener:
        path = Path(folder) / "run.jsonl" if record_to is None else record_to
        here, title = f"http://{_HOST}:{listener.getsockname()[1]}/", address_of(url)
        recorder = record(path)
        app = InspectorApp(url, recorder, prices)

        async def started() -> InspectorApp:
            """Open the page; the socket listens already."""
            if is_opening:
                webbrowser.open(here)
            return app

        # Pages of other sites are refused: they could begin runs, and read the recording if their name leads here.
        serve_app(listener, started, f"{here} passes runs on to {title}, and shows them in a browser, until Ctrl-C")
        recorder.close()
        if out is not None:
            write_private(out, app.page(is_live=False))
    return ExitCode.SUCCESS


class InspectorApp:
    """The ASGI app: GET / is the page, GET /rows its further rows, and every POST a run of the remote agent.

    Args:
        url: The agent's address.
        recorder: The recorder of the runs.
        prices: The prices of tokens; None for none.
    """

    def __init__(self, url: str, recorder: Recorder, prices: Prices | None = None) -> None:
        self._title, self._prices = address_of(url), prices
        self._rows = LiveRows(recorder.path, prices)
        self._proxy = _Proxy(url, recorder)

    def page(self, *, is_live: bool = True) -> bytes:
        """Return the page with all rows so far."""
        self._rows.catch_up()
        return b"".join(parts_of(self._rows.written, self._title, is_live=is_live, prices=self._prices))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request (the ASGI interface)."""
        if scope["type"] != "http":
            await self._proxy(scope, receive, send)
        elif (scope["method"], scope["path"]) == ("GET", "/"):
            # In a thread, as a long recording takes seconds, for which no run that passes should wait.
            page = await anyio.to_thread.run_sync(self.page)
            await begin_response(send, HTTPStatus.OK, {"content-type": "text/html; charset=utf-8", **_SECURE})
            await send({"type": "http.response.body", "body": page})
        elif (scope["method"], scope["path"]) == ("GET", "/rows"):
            await self._follow(_number(scope), receive, send)
        else:
            await self._proxy(scope, receive, send)

    async def _follow(self, after: int, receive: Receive, send: Send) -> None:
        """Send the rows behind a number of rows, and those that come, until the page is closed."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_disconnect, receive, tasks.cancel_scope)
            with suppress(OSError):
                await begin_response(send, HTTPStatus.OK, {"content-type": "text/event-stream", **_SECURE})
                silent = 0
                while True:
                    await anyio.to_thread.run_sync(self._rows.catch_up)
                    if rows := self._rows.written[after : after + _MOST_ROWS]:
                        frame = b'data: {"after":%d,"rows":[%b]}\n\n' % (after, b",".join(rows))
                        after, silent = after + len(rows), 0
                    else:
                        frame, silent = KEEP_ALIVE if silent >= _SILENT_LOOKS else b"", silent + 1
                        await anyio.sleep(_LOOK_SECONDS)
                    if frame:
                        silent = 0
                        await send({"type": "http.response.body", "body": frame, "more_body": True})


class _Proxy(AgentApp):
    """Passes runs on to a remote agent, and its events back as they came; both are recorded."""

    _own_headers: Mapping[str, str] = {}

    def __init__(self, url: str, recorder: Recorder) -> None:
        super().__init__(lambda request, _: self._remote(request), limits=AppLimits(max_body_bytes=_MOST_BODY_BYTES))
        self._url, self._recorder = url, recorder

    @asynccontextmanager
    async def _open(self, request: ServedRequest, input: RunAgentInput) -> AsyncGenerator[AsyncIterator[WireEvent]]:
        """Begin a run, as a block with its events; leaving the block ends the run.

        Raises:
            RequestRefusedError: The remote agent refused the run, or cannot be reached.
        """
        agent = self._remote(request)
        shown = AgentRecord(agent_id="inspected", url=address_of(agent.url))
        call = self._recorder.new_call()
        source = as_source(agent.run(input), None)
        sent = source.secrets if isinstance(source, HttpSource) else None
        key = self._recorder.begin_request(call, input, agent=shown, is_connecting=request.is_connect, sent=sent)
        end = partial(self._recorder.end_request, key, is_in_process=False)
        async with aclosing(ObservedSource(source, partial(self._recorder.write_event, key), end)) as answer:
            try:
                first = await answer.read()
            except HTTPStatusError as error:
                status = error.status_code if error.status_code >= HTTPStatus.BAD_REQUEST else HTTPStatus.BAD_GATEWAY
                raise RequestRefusedError(status, _reason(error.body)) from error
            except AGUIError as error:
                raise RequestRefusedError(HTTPStatus.BAD_GATEWAY, str(error)) from error
            finally:
                self._note_responses(key, source)
            yield _events(first or (), answer)

    def _remote(self, request: ServedRequest) -> HttpAgent:
        """Return the agent at the path that was asked for, with the caller's credentials.

        Raises:
            RequestRefusedError: The path leads out of the agent's address.
        """
        below = _path_below(request.scope)
        parts = urlsplit(self._url)
        url = parts._replace(path=parts.path.rstrip("/") + below).geturl() if below != "/" else self._url
        headers = {name: value for name, value in request.headers.items() if name not in _NOT_PASSED_ON}
        return HttpAgent(url, headers=headers, timeout=_PATIENT)

    def _note_responses(self, key: str, source: object) -> None:
        if isinstance(source, HttpSource):
            for attempt in source.delivery.attempts:
                self._recorder.write_response(key, attempt, source.delivery.response)


def _path_below(scope: Mapping[str, Any]) -> str:
    """Return the path of a request as it was sent, so that it means the same below the agent's address.

    Raises:
        RequestRefusedError: It has a segment of dots, however often it is encoded: servers go up at one.
    """
    path = quote(scope.get("raw_path") or scope["path"].encode(), safe=_OF_PATHS)
    plain, before = path, ""
    while plain != before:
        plain, before = unquote(plain), plain
    segments = plain.replace("\\", "/").split("/")
    if not {".", ".."}.isdisjoint(segment.partition(";")[0] for segment in segments):
        raise RequestRefusedError(HTTPStatus.BAD_REQUEST, "the path leads out of the address of the agent")
    return path


async def _events(first: Iterable[WireEvent], answer: ObservedSource) -> AsyncIterator[WireEvent]:
    try:
        for event in first:
            yield event
        async for event in answer:
            yield event
    except AGUIError as error:
        # The caller of the agent itself would see the broken stream.
        yield RunErrorEvent(message=f"agui inspect: {error}", code="broken_stream")


def _reason(body: str) -> object:
    try:
        return parse_json(body)
    except ValueError:
        return body


def _number(scope: Mapping[str, Any]) -> int:
    text = parse_qs(scope["query_string"].decode("latin-1")).get("after", ["0"])[0]
    return int(text) if text.isdecimal() and len(text) < 10 else 0
