"""The observer that writes a recording: each line as it happens, so that a program that dies leaves what it had."""

from __future__ import annotations

import errno
import json
import os
import threading
import weakref
from codecs import BOM_UTF8
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from io import FileIO
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4
from weakref import WeakKeyDictionary

from ag_ui.core import PROTOCOL_VERSION
from pydantic_core import to_jsonable_python

from agui_client._core.ground.files import private
from agui_client._core.ground.secrets import Redact
from agui_client._core.ground.sent_secrets import SentSecrets
from agui_client._core.protocol.delta_json import delta_json
from agui_client._core.protocol.events import UnrecognizedEvent
from agui_client._core.protocol.plain_json import members_as_json, write
from agui_client._core.protocol.request import request_body
from agui_client._core.run.observers import RunKeeper
from agui_client._core.run.scope import RunScope
from agui_client._core.tools.context import MOST_REPORTS
from agui_client._version import __version__
from agui_client.errors import UsageError
from agui_client.recording._failures import error_record
from agui_client.recording._format import (
    AgentRecord,
    CallLine,
    EndLine,
    HeaderLine,
    OutcomeLine,
    RequestLine,
    ResponseLine,
    ToolLine,
    WarningRecord,
)
from agui_client.recording._pieces import PendingEvent, ResponseWriter
from agui_client.recording._reading import Recording, RecordingError, lines_of_call
from agui_client.recording._references import InputReferences

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ag_ui.core import RunAgentInput

    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.run.observers import CallEnd, RunEnd
    from agui_client._core.tools.context import ToolExecution
    from agui_client._core.tools.interrupts import AnsweredInterrupt
    from agui_client._core.transport.client import Attempt
    from agui_client._core.transport.response import ResponseInfo
    from agui_client.recording._format import Line

_BEGINNING = b'{"kind":"header"'
_MOST_CREDENTIALS = 256
"""The latest credentials, of any request, that are looked for in lines about what a response led to."""
_NOTHING_SENT = SentSecrets()
_SHOWN_HEADERS = ("content-type", "content-encoding", "date", "retry-after", "server", "via", "x-request-id")


class Recorder(RunKeeper):
    """Appends the runs that it observes to a file; `record()` makes one.

    One recorder may observe any number of agents and calls at once. It writes a header with its first line.

    Args:
        path: The file; it is made if it does not exist, and gets a further session if it does.
        redact: See `record`.

    Raises:
        UsageError: The name of the file ends in .gz.
    """

    def __init__(self, path: str | os.PathLike[str], redact: Redact | None = None) -> None:
        self.path: Path = Path(path)
        """The file."""
        if self.path.suffix == ".gz":
            raise UsageError("a recording is written as plain text; it can be read when it was packed with gzip later")
        self._redact = redact
        self._calls: WeakKeyDictionary[RunScope, str] = WeakKeyDictionary()
        self._latest: WeakKeyDictionary[RunScope, str] = WeakKeyDictionary()
        self._requests: WeakKeyDictionary[RunScope, dict[int, str]] = WeakKeyDictionary()
        self._responses: dict[str, ResponseWriter] = {}
        self._reports: dict[tuple[str, str], int] = {}
        self._secrets: dict[str, SentSecrets] = {}
        self._credentials: tuple[str, ...] = ()
        self._references = InputReferences()
        self._lock = threading.RLock()
        self._numbers = count(1)
        self._process: int | None = None
        self._file: FileIO | None = None

    def on_request(self, run: RunScope, number: int, input: RunAgentInput) -> None:
        """Write the request."""
        call = self._call(run)
        parent = None if run.parent is None else self._calls.get(run.parent.first or run.parent)
        info = run.agent
        key = self.begin_request(
            call,
            input,
            agent=AgentRecord(agent_id=info.agent_id, name=info.name, description=info.description, url=info.url),
            is_connecting=run.is_replay,
            parent=parent,
            answered=run.answered,
            sent=run.warnings.secrets,
        )
        self._requests.setdefault(run, {})[number] = self._latest[run.first or run] = key

    def on_wire_event(self, run: RunScope, number: int, event: WireEvent) -> None:
        """Write an event."""
        if (key := self._requests.get(run, {}).get(number)) is None:
            return
        try:
            self.write_event(key, event)
        except Exception:
            # A response with a gap would be replayed as another one; without its rest, it is one that was cut off.
            del self._requests[run][number]
            raise

    def on_request_end(self, run: RunScope, number: int, error: Exception | None, *, is_whole: bool) -> None:
        """Write the end of a response."""
        if (key := self._requests.get(run, {}).get(number)) is not None:
            self.end_request(key, error, is_whole=is_whole, is_in_process=run.agent.is_local)

    def on_attempt_end(self, run: RunScope, attempt: Attempt, error: BaseException | None) -> None:
        """Write the head of a response."""
        response = next((each.delivery.response for each in run.requests if attempt in each.delivery.attempts), None)
        self.write_response(self._latest[run.first or run], attempt, response)

    def write_response(self, request: str, attempt: Attempt, response: ResponseInfo | None) -> None:
        """Write the head of the response to an attempt to post a request; None if there is no response."""
        self._write(
            ResponseLine(
                request=request,
                at=self._now(),
                reason=attempt.reason,
                address=attempt.address,
                seconds=attempt.seconds,
                status=attempt.status_code,
                headers=_headers(response) if attempt.status_code is not None else {},
                error=attempt.error,
            )
        )

    def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
        """Write a step of a tool."""
        call, reports = self._call(run), len(execution.progress)
        before = self._reports.get((call, execution.tool_call_id), 0)
        # Only the latest hundred are kept, so that the number of new ones is not known any more.
        latest = execution.progress[before:] if reports < MOST_REPORTS else execution.progress[-1:]
        self._reports[call, execution.tool_call_id] = reports
        self._write(
            ToolLine(
                call=call,
                request=self._latest.get(run.first or run),
                at=self._now(),
                tool_call_id=execution.tool_call_id,
                name=execution.name,
                status=execution.status,
                arguments=_plain(execution.arguments),
                progress=_plain(latest),
                result=None if execution.message is None else _plain(execution.message.content),
                seconds=execution.seconds,
                error=execution.error,
                decision=execution.decision,
            )
        )
        if execution.message is not None:
            self._reports.pop((call, execution.tool_call_id), None)

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        """Write the outcome of a run."""
        self._write(
            OutcomeLine(
                call=self._call(run),
                request=self._latest.get(run.first or run),
                at=self._now(),
                **_ending(end),
                usage=_plain(list(end.usage)),
                warnings=[WarningRecord(**_plain(each)) for each in run.warnings.records()],
            )
        )

    def on_call_end(self, run: RunScope, end: CallEnd) -> None:
        """Write the end of a call, unless nothing was written of it."""
        latest = self._latest.get(run.first or run)
        self._write(CallLine(call=self._call(run), request=latest, at=self._now(), **_ending(end)))

    def begin_request(
        self,
        call: str,
        input: RunAgentInput,
        *,
        agent: AgentRecord,
        is_connecting: bool = False,
        parent: str | None = None,
        answered: Sequence[AnsweredInterrupt] = (),
        sent: SentSecrets | None = None,
    ) -> str:
        """Write a request, and return its key; what is written afterwards has to name it.

        Args:
            call: The key of the call, see `new_call`.
            input: The input as the agent gets it.
            is_connecting: Whether the thread is to be sent again.
            parent: The key of the call inside which this one is made.
            answered: The interrupts whose answers are in the input.
            sent: The record that has the credentials of the request once it is sent; None if none are sent.
        """
        key = f"{call}.{next(self._numbers)}"
        line = RequestLine(
            request=key,
            call=call,
            parent=parent,
            at=self._now(),
            verb="connect" if is_connecting else "run",
            agent=agent,
            answers={each.interrupt.id: (each.by, each.seconds) for each in answered} or None,
            input=json.loads(request_body(input)),
        )
        if sent is not None:
            self._secrets[key] = sent
        whole = self._redacted(line.model_dump_json(exclude_none=True, exclude={"same"}))
        # No other thread may come to a new file between the reference and its line.
        with self._lock:
            try:
                self._write_bytes(_dumped(self._references.shorten(json.loads(whole))))
            except OSError:
                self._references.clear()
                raise
        return key

    def write_event(self, request: str, event: WireEvent) -> None:
        """Write an event of the response to a request."""
        if (response := self._responses.get(request)) is None:
            response = self._responses[request] = ResponseWriter()
        # Of an agent in this process the latest, as a team's members may have sent them.
        sent = (self._secrets.get(request) or _NOTHING_SENT).credentials or self._credentials
        # Most events are deltas.
        bare = None if isinstance(event, UnrecognizedEvent) else delta_json(event)
        json_of_event = _event_json(event) if bare is None else bare
        # By hand, and not as a model: this happens for every event.
        line = f'{{"kind":"event","request":"{request}","at":{self._now()},"event":{json_of_event}}}'
        try:
            if bare is not None and self._redact is None and response.passes(bare, event.__dict__["delta"], sent):
                self._write_bytes(line.encode())
                return
            for entry in response.add(line, event, sent, bare=bare):
                self._write_bytes(entry.redacted(self._redact))
        except Exception:
            # What waits is behind the line that could not be written.
            self._responses.pop(request, None)
            raise

    def end_request(self, request: str, error: Exception | None, *, is_whole: bool, is_in_process: bool) -> None:
        """Write the end of the response to a request."""
        if (response := self._responses.pop(request, None)) is not None:
            for entry in response.finish():
                self._write_bytes(entry.redacted(self._redact))
        reason: Literal["ended", "failed", "left"] = "failed" if error is not None else "ended" if is_whole else "left"
        record = None if error is None else error_record(error, is_ours=is_in_process)
        self._write(EndLine(request=request, at=self._now(), reason=reason, error=record))
        self._secrets.pop(request, None)

    def new_call(self) -> str:
        """Return the key of a call that nobody has."""
        self._begin_session()
        return f"{self._session}-{next(self._numbers)}"

    def kept(self, run: RunScope) -> Callable[[], Sequence[Line]]:
        """Return a function that reads the lines of a call; see `RunKeeper`."""
        key = self._calls.get(run.first or run)
        return lambda: () if key is None else lines_of_call(self._read(), key)

    def _read(self) -> Sequence[Line]:
        """Read all lines that were written; none if the file is gone."""
        try:
            return Recording.read(self.path).lines
        except RecordingError:
            return ()

    def close(self) -> None:
        """Close the file; a later run opens it again."""
        with self._lock:
            if self._file is not None:
                self._closer()
                self._file = None
            # The file may be moved away before it is opened again.
            self._references.clear()

    def __repr__(self) -> str:
        return f"record({str(self.path)!r})"

    def _call(self, run: RunScope) -> str:
        first = run.first or run
        if first not in self._calls:
            self._calls[first] = self.new_call()
        return self._calls[first]

    def _begin_session(self) -> None:
        """Begin a session with the first call in this process; a fork has keys of its own."""
        with self._lock:
            if self._process != os.getpid():
                self._process, self._file = os.getpid(), None
                self._references.clear()
                self._session = uuid4().hex[:12]
                self._began, self._time = perf_counter(), datetime.now(UTC)

    def _now(self) -> float:
        return round(perf_counter() - self._began, 6)

    def _write(self, line: ResponseLine | ToolLine | OutcomeLine | CallLine | EndLine) -> None:
        if (sent := self._secrets.get(line.request or "")) is not None and sent.credentials:
            kept = [each for each in self._credentials if each not in sent.credentials]
            self._credentials = (*kept, *sent.credentials)[-_MOST_CREDENTIALS:]
        self._write_bytes(self._redacted(line.model_dump_json(exclude_none=True)))

    def _redacted(self, line: str) -> bytes:
        """Return a line, which may repeat what an earlier response quoted, without secrets."""
        return PendingEvent(line, sent=self._credentials).redacted(self._redact)

    def _write_bytes(self, line: bytes) -> None:
        with self._lock:
            if self._file is None:
                self._file = self._open()
            # Not buffered: a line is in the file, whole, before anything else happens.
            try:
                _write_whole(self._file, line + b"\n")
            except OSError:
                # Opened again, the file gets a line end and a header, behind which it can be read.
                self.close()
                raise

    def _header(self) -> bytes:
        """Return the line that begins a session."""
        header = HeaderLine(protocol=PROTOCOL_VERSION, package=__version__, session=self._session, time=self._time)
        return header.model_dump_json().encode()

    def _open(self) -> FileIO:
        file = open(self.path, "ab", buffering=0, opener=private)  # noqa: SIM115 - Path.open has no opener
        # The program before may have been stopped in the middle of a line.
        try:
            _write_whole(file, _missing_line_end(self.path) + self._header() + b"\n")
        except OSError:
            file.close()
            raise
        self._closer = weakref.finalize(self, file.close)
        return file


def record(path: str | os.PathLike[str], *, redact: Redact | None = None) -> Recorder:
    """Record the runs of an agent: `agent.use(record("run.jsonl"))`.

    The file gets everything that the agent was asked and answered, with the times, and the tools that were executed
    here; never request headers, and no values under names such as `password` or `encryptedValue`. Several agents may
    share one recorder, and recorders of several programs may append to one file.

    Args:
        path: The file; it is made, readable for its owner alone, or appended to.
        redact: A function that takes each text and its JSON pointer in the line, such as "/input/state/user", and
            returns the text to write. A secret that an agent streams in several deltas is not in any one of them. If it
            fails, the line is not written, and the response counts for cut off.

    Returns:
        The observer to give to `agent.use(...)`, or to `observers=[...]`.

    Raises:
        UsageError: The name of the file ends in .gz; the file cannot be written, or is not a recording; or `redact` is
            not a plain function.
    """
    given: Any = redact
    if given is not None and (not callable(given) or iscoroutinefunction(given)):
        raise UsageError(f"redact= takes a plain function (text, pointer) that returns a text, not {given!r}")
    recorder = Recorder(path, redact)
    # An observer can only log that it failed, when the run continues and is paid for.
    _check_writable(recorder.path)
    return recorder


def _check_writable(path: Path) -> None:
    """Check that a recording can be appended to, or made, without making it.

    Raises:
        UsageError: It cannot.
    """
    try:
        if path.is_file():
            with path.open("r+b") as file:
                begins = file.readline(200).removeprefix(BOM_UTF8).replace(b" ", b"").strip()
            # A header may have been cut off.
            if not _BEGINNING.startswith(begins[: len(_BEGINNING)]):
                raise UsageError(f"{str(path)!r} is not a recording, and is left as it is: name another file")
        elif path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        elif not path.exists():
            TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise UsageError(f"the recording {str(path)!r} cannot be written: {error.strerror or error}") from error


def _write_whole(file: FileIO, line: bytes) -> None:
    if file.write(line) != len(line):
        raise OSError("a line of the recording could not be written whole; is the disk full?")


def _missing_line_end(path: Path) -> bytes:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return b""
        file.seek(-1, os.SEEK_END)
        return b"" if file.read(1) == b"\n" else b"\n"


def _event_json(event: WireEvent) -> str:
    if isinstance(event, UnrecognizedEvent):
        return _dumped(event.data).decode()
    try:
        return write(event).decode()
    except ValueError:
        # An agent in this process may yield anything; validation judges it.
        return _dumped(members_as_json(event, [])).decode()


def _dumped(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), default=repr).encode()


def _plain(value: object) -> Any:
    return to_jsonable_python(value, by_alias=True, exclude_none=True, fallback=repr, inf_nan_mode="null")


def _ending(end: RunEnd) -> dict[str, Any]:
    """Return the members of a line about the end of a run or a call."""
    error = None if end.error is None else error_record(end.error, is_ours=False)
    return {"run_id": end.run_id, "ending": end.ending, "error": error, "timings": _plain(end.timings)}


def _headers(response: ResponseInfo | None) -> dict[str, str]:
    shown: Mapping[str, str] = {} if response is None else response.headers
    return {name: shown[name] for name in _SHOWN_HEADERS if shown.get(name, "[redacted]") != "[redacted]"}
