"""The fixtures of ag-ui-validate, a linter for producers, as a consumer has to take them.

A linter and a consumer judge differently: it flags what is unwise, a consumer refuses only what the specification makes
fatal. So each of its invalid streams is listed here with our verdict, and with the reason where that is another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable

import pytest

from agui_client import AGUIError, HttpAgent, ProtocolError, RunFailedError, RunResult, TransportError, validate
from agui_client.testing import Reply, serve_bytes

pytest.importorskip("ag_ui_validate", reason="pip install ag-ui-validate, which brings the fixtures")
_FIXTURES = resources.files("ag_ui_validate") / "spec" / "fixtures"

REJECTED = {
    "AGUI001-first-event-not-run-started": "LIFE-1",
    "AGUI002-duplicate-run-started": "LIFE-2",
    "AGUI003-run-never-terminated": "TRUNC-1",
    "AGUI004-event-after-terminal": "LIFE-3",
    "AGUI006-step-finished-unmatched": "LIFE-16",
    "AGUI007-step-unterminated": "LIFE-5",
    "AGUI101-content-without-start": "STREAM-1",
    "AGUI102-end-without-start": "STREAM-1",
    "AGUI103-message-unterminated": "LIFE-5",
    "AGUI104-duplicate-message-id": "LIFE-5",  # not for the reused id, but because that message is open at the end
    "AGUI106-interleaved-same-message-id": "STREAM-1",
    "AGUI201-args-without-start": "STREAM-1",
    "AGUI202-end-without-start": "STREAM-1",
    "AGUI203-unterminated-tool-call": "LIFE-5",
    "AGUI205-duplicate-tool-call-id": "LIFE-5",  # as AGUI104
    "AGUI401-reasoning-content-without-start": "REASON-2",
    "AGUI402-reasoning-unterminated": "LIFE-5",
    "AGUI502-payload-not-json": "PROC-12",
    "AGUI504-schema-violation": "PROC-6",
    "AGUI508-connection-dropped": "TRUNC-1",
    "AGUI601-duplicate-subagent-started": "SUB-6",
    "AGUI602-finished-without-start": "SUB-6",
    "AGUI603-error-without-start": "SUB-6",
    "AGUI604-subagent-unterminated": "SUB-7",
    "AGUI605-unknown-parent-subagent-run-id": "SUB-6",
    "AGUI606-continuation-owner-mismatch": "SUB-3",
}
"""Streams that end in a ProtocolError, with its rule."""

ACCEPTED: dict[str, tuple[Sequence[str], str]] = {
    "AGUI008-unstable-run-ids": (["LIFE-12"], "the pages give no verdict on ids that do not match; strict=True does"),
    "AGUI105-empty-content-delta": ([], "an empty delta is a delta"),
    "AGUI204-args-not-json": ([], "TOOL-2: END means complete, not valid JSON; the executor decides"),
    "AGUI206-result-before-end": ([], "TOOL-5: no page orders a result after the END of its call"),
    "AGUI207-result-unknown-id": ([], "TOOL-5: no page requires the call of a result to be known"),
    "AGUI208-unknown-parent-message-id": ([], "TOOL-3: the parent may be a message that is still to come"),
    "AGUI301-delta-before-snapshot": ([], "STATE-1: without a snapshot the base is the input's state"),
    "AGUI302-delta-failed-to-apply": (["SNAP-5"], "a patch that fails leaves the state as it was"),
    "AGUI303-invalid-patch-document": (["SNAP-4"], "an unknown op is dropped, the run goes on"),
    "AGUI304-midrun-snapshot-discards-deltas": ([], "SNAP-1: that is what a snapshot is for"),
    "AGUI305-shared-state-never-established": ([], "what features a producer declares is not on the stream"),
    "AGUI501-missing-data-prefix": ([], "the SSE standard ignores lines of no known field"),
    "AGUI503-unknown-event-type": (["PROC-7"], "unknown events are dropped, so that the protocol can grow"),
    "AGUI506-keepalive-gap": ([], "how long to wait is the caller's to say, with Timeouts"),
    "AGUI507-buffered-response": ([], "how a body is cut means nothing"),
    "AGUI901-raw-wraps-typed-event": ([], "PASS-1: a RAW event means nothing to the protocol"),
    "AGUI902-no-timestamps": ([], "PROC-16: time stamps are optional"),
    "AGUI903-custom-name-not-namespaced": ([], "PASS-2: any name will do"),
}
"""Streams that finish, with the rules of our warnings and the reason why they do."""

FAILED = "AGUI005-finished-and-error"
"""The one stream whose late RUN_ERROR makes it a failed run instead of a broken stream (LIFE-4)."""
REFUSED = "AGUI505-unexpected-content-type"
"""The one stream that is not read at all: the content type is not that of an event stream (SSE-3)."""


def run(reply: Reply, events: Sequence[str]) -> RunResult:
    """The result of a run that is answered with this; raises what the run raises."""
    started = [json.loads(event) for event in events if '"RUN_STARTED"' in event] or [{}]
    thread_id, run_id = started[0].get("threadId", "t"), started[-1].get("runId", "r")
    error: AGUIError | None = None
    with serve_bytes(reply) as server:
        try:
            return HttpAgent(server.url, thread_id=thread_id).run_agent_sync(run_id=run_id)
        except AGUIError as raised:
            error = raised
    raise error


def of_lines(path: Traversable) -> RunResult:
    """Run a file of one event per line."""
    events = path.read_text(encoding="utf-8").splitlines()
    return run(Reply([f"data: {event}\n\n".encode() for event in events]), events)


def of_fixture(name: str) -> RunResult:
    """Run an invalid stream, or a scenario of what happens on the line."""
    folder = _FIXTURES / "invalid" / name
    if (folder / "stream.jsonl").is_file():
        return of_lines(folder / "stream.jsonl")
    scenario = json.loads((folder / "scenario.json").read_text(encoding="utf-8"))
    chunks: list[str] = [chunk["text"] for chunk in scenario["chunks"]]
    events = [line.removeprefix("data: ") for chunk in chunks for line in chunk.splitlines() if line.startswith("data")]
    reply = Reply([chunk.encode() for chunk in chunks], content_type=scenario["contentType"])
    return run(replace(reply, end="cut") if scenario.get("abnormalEof") else reply, events)


def body_of(name: str) -> bytes:
    """The bytes of an invalid stream."""
    folder = _FIXTURES / "invalid" / name
    if (folder / "stream.jsonl").is_file():
        return (folder / "stream.jsonl").read_bytes()
    scenario = json.loads((folder / "scenario.json").read_text(encoding="utf-8"))
    return "".join(chunk["text"] for chunk in scenario["chunks"]).encode()


def names(folder: Traversable) -> Iterable[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_every_invalid_fixture_has_a_verdict_here() -> None:
    assert sorted([*REJECTED, *ACCEPTED, FAILED, REFUSED]) == names(_FIXTURES / "invalid")


@pytest.mark.parametrize("name", [name for name in names(_FIXTURES / "valid") if name.endswith(".jsonl")])
def test_a_valid_stream_finishes_without_a_warning(name: str) -> None:
    assert of_lines(_FIXTURES / "valid" / name).warnings == []


@pytest.mark.parametrize("name", REJECTED)
def test_an_invalid_stream_is_rejected(name: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        of_fixture(name)
    assert caught.value.rule == REJECTED[name]


@pytest.mark.parametrize("name", [name for name in names(_FIXTURES / "invalid") if name != REFUSED])
def test_a_check_of_the_stream_finds_the_rule_and_nothing_that_follows_from_it(name: str) -> None:
    faults = validate(body_of(name))
    errors = [fault.rule for fault in faults if fault.severity == "error"]
    warnings = [fault.rule for fault in faults if fault.severity == "warning"]
    accepted, _ = ACCEPTED.get(name, ((), ""))
    # Without the input, the state from before the stream is not known.
    known = [rule for rule in accepted if not (rule == "SNAP-5" and "delta" not in name)]
    assert (errors, warnings) == ([REJECTED[name]] if name in REJECTED else [], known)


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_stream_that_is_only_unwise_is_accepted(name: str) -> None:
    rules, _ = ACCEPTED[name]
    assert [warning.rule for warning in of_fixture(name).warnings] == rules


@pytest.mark.requirement("LIFE-4")
def test_a_late_failure_is_a_failure_and_no_broken_stream() -> None:
    with pytest.raises(RunFailedError, match="boom"):
        of_fixture(FAILED)


@pytest.mark.requirement("SSE-3")
def test_another_content_type_is_refused() -> None:
    with pytest.raises(TransportError, match="application/json"):
        of_fixture(REFUSED)
