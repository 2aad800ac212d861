"""The records of runs as servers write them, and the cursors of their events."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from ag_ui.core import Interrupt

from agui_client import UsageError
from agui_client._core.agent.run_records import Place, StoredRequest, cursor_of, read_cursor
from agui_client.asgi import agent_app
from agui_client.store import Keeping, RunInfo, RunStatus, Store, WaitingRun
from agui_client.testing import ScriptedAgent, turn

ASKED = Interrupt(id="i", reason="confirmation", message="Proceed?")


@pytest.mark.parametrize(
    ("run_id", "place", "cursor"),
    [
        ("r", Place(3), "3-r"),
        ("r", Place(3, 2), "3.2-r"),
        ("r", Place(3, ends=2), "3~2-r"),
        ("r", Place(3, 4, (Place(7), Place(9, 2)), 1), "7_9.2_3.4~1-r"),
        ("a-b/ü", Place(0), "0-a-b%2F%C3%BC"),
        ("r", Place(999_999_999_999_999), "999999999999999-r"),
    ],
)
def test_a_cursor_names_the_run_and_the_place(run_id: str, place: Place, cursor: str) -> None:
    assert cursor_of(run_id, place) == cursor
    assert read_cursor(cursor) == (run_id, place)


@pytest.mark.parametrize(
    "cursor",
    [
        *(
            "",
            "3",
            "3-",
            "-r",
            "x-r",
            "3.x-r",
            "²-r",
            "-3-r",
            "3.2.1-r",
            "+3-r",
            "3" * 16 + "-r",
            "3." + "1" * 16 + "-r",
        ),
        *("3~-r", "_3-r", "3.2_3.2-r", "3.2_3-r"),
    ],
)
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_cursor(cursor)
    assert str(refused.value) == f"{cursor!r} is not a cursor of a run; take it from an event as it came"


def test_the_refusal_of_a_long_cursor_shows_its_beginning() -> None:
    with pytest.raises(UsageError, match=rf"^'{'x' * 80}' is not a cursor"):
        read_cursor("x" * 1000)


def test_the_description_of_a_run_is_json() -> None:
    begun = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    info = RunInfo("r", "t", "ann", RunStatus.WAITING, begun, begun + timedelta(seconds=1), 7, [ASKED])
    assert info.to_dict() == {
        "runId": "r",
        "threadId": "t",
        "owner": "ann",
        "status": "waiting",
        "begunAt": "2026-01-02T03:04:05+00:00",
        "endedAt": "2026-01-02T03:04:06+00:00",
        "eventCount": 7,
        "interrupts": [{"id": "i", "reason": "confirmation", "message": "Proceed?"}],
        "isQueued": False,
    }
    going_on = RunInfo("r", "t", "", RunStatus.RUNNING, begun, None, 0, ())
    assert (going_on.to_dict()["endedAt"], going_on.to_dict()["interrupts"]) == (None, [])
    assert WaitingRun("r 1", "t&2", "ann", [ASKED]).query == "thread=t%262&run=r+1"


def test_a_request_is_stored_as_json_that_each_process_reads() -> None:
    stored = StoredRequest("helper", {"path": "/"}, {"threadId": "t"})
    assert json.loads(stored.as_text()) == {
        "agent": "helper",
        "about": {"path": "/"},
        "input": {"threadId": "t"},
        "when_left": "continue",
        "expose_errors": False,
        "on_crash": "again",
        "asked": "",
        "trace": {},
    }
    assert StoredRequest(**json.loads(stored.as_text())) == stored


def test_what_becomes_of_a_run_whose_process_ends_is_one_of_two() -> None:
    store, agent = Store(), ScriptedAgent(turn())
    store.runs.add("again", agent, on_crash="again")
    for make in (
        lambda: store.runs.add("fail", agent, on_crash="fail"),
        lambda: agent_app(agent, store=store, owner_of=lambda _: "", keeping=Keeping(on_crash="fail")),
    ):
        with pytest.raises(UsageError, match=r'^on_crash="fail" is for Store\(URL\)'):
            make()
    with pytest.raises(UsageError, match=r'^on_crash= is "again" or "fail", not \'never\'$'):
        store.runs.add("never", agent, on_crash="never")  # type: ignore[arg-type]
