"""The state of a call: its transitions, each from each phase and with each reason, as the module's table has them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import anyio
import pytest
from ag_ui.core import RunErrorEvent, RunStartedEvent, TextMessageChunkEvent, TextMessageEndEvent

from agui_client import RunFailedError
from agui_client._core.run import state
from agui_client._core.run.state import CallState, Phase, Reason
from agui_client.testing import ScriptedAgent

_MOVES: dict[str, tuple[Callable[[CallState], None], dict[Phase, Phase]]] = {
    "send": (CallState.send, {Phase.READY: Phase.OPEN}),
    "read_to_end": (CallState.read_to_end, {Phase.OPEN: Phase.READ}),
    "end_run": (
        lambda call: call.end_run(is_done=False),
        dict.fromkeys((Phase.READY, Phase.OPEN, Phase.READ), Phase.OVER),
    ),
    "answer": (CallState.answer, {Phase.OVER: Phase.ANSWERING}),
    "begin_run": (CallState.begin_run, {Phase.ANSWERING: Phase.READY}),
    "end": (CallState.end, dict.fromkeys(Phase, Phase.ENDED)),
}
"""The transitions between phases, each with the phases that it leads to from others; from the rest it is a fault."""

_STOPS: dict[str, Callable[[CallState, bool], None]] = {
    "stop": lambda call, is_done: call.stop(is_done=is_done),
    "exit": lambda call, is_done: call.exit(is_done=is_done),
    "cut": lambda call, _: call.cut(),
    "end_run": lambda call, is_done: call.end_run(is_done=is_done),
}


def _call(phase: Phase, reason: Reason = Reason.NONE) -> CallState:
    call = CallState()
    call.phase, call.reason = phase, reason
    return call


def _rows() -> Iterator[tuple[str, Phase, bool, Reason, Reason]]:
    """The rows of the table in the module's docstring: transition, phase, whether the run is done, reasons."""
    for line in (state.__doc__ or "").splitlines():
        where, transition, *after = line[4:31], line[31:44].strip(), *line[44:].split()
        if not line.startswith("    ") or transition not in _STOPS:
            continue
        phases = [Phase[name] for name in where.replace(" ", "").split(",") if name != "done"]
        for phase, (before, reason) in product(phases, zip(Reason, after, strict=True)):
            yield transition, phase, "done" in where, before, Reason[reason]


_ROWS = list(_rows())


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("move", _MOVES)
def test_a_call_goes_from_phase_to_phase_as_the_table_says(move: str, phase: Phase) -> None:
    make, leads_to = _MOVES[move]
    call = _call(phase)
    if phase in leads_to:
        make(call)
        assert (call.phase, call.reason) == (leads_to[phase], Reason.NONE)
    else:
        with pytest.raises(RuntimeError, match=f"it is {phase.value}; please report this"):
            make(call)
        assert call.phase is phase


def test_the_table_has_a_row_for_each_reason_in_each_phase() -> None:
    phases = [phase for phase in Phase if phase is not Phase.ENDED]
    rows = {(transition, phase, before) for transition, phase, _, before, _ in _ROWS}
    assert rows >= set(product(("stop", "exit", "cut"), phases, Reason))


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.ENDED])
@pytest.mark.parametrize("transition", _STOPS)
def test_a_reason_to_stop_changes_as_the_table_says(transition: str, phase: Phase) -> None:
    rows = [row for row in _ROWS if row[:2] == (transition, phase)]
    for _, _, is_done, before, after in rows:
        call = _call(phase, before)
        _STOPS[transition](call, is_done)
        moved = Phase.OVER if transition == "end_run" else phase
        assert (before, is_done, call.reason, call.phase) == (before, is_done, after, moved)


@pytest.mark.parametrize("transition", ["stop", "exit", "cut", "end"])
def test_nothing_changes_the_reason_of_a_call_that_has_ended(transition: str) -> None:
    for before in Reason:
        call = _call(Phase.ENDED, before)
        if transition == "end":
            call.end()
        else:
            _STOPS[transition](call, False)
        assert (call.phase, call.reason) == (Phase.ENDED, before)


@pytest.mark.parametrize("reason", Reason)
def test_only_the_end_of_a_run_that_is_done_undoes_an_abort(reason: Reason) -> None:
    for move, (make, leads_to) in _MOVES.items():
        for phase in leads_to:
            call = _call(phase, reason)
            make(call)
            assert call.reason is reason, (move, phase)


def test_only_the_engine_the_end_of_a_run_and_the_end_of_a_call_move_phases() -> None:
    movers: defaultdict[str, set[str]] = defaultdict(set)
    package = Path(state.__file__).parents[2]
    mention = re.compile(rf"state\.({'|'.join([*_MOVES, 'phase'])})\b")
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for function in ast.walk(ast.parse(text if mention.search(text) else "")):
            # A team has a state of its own; outside of `_core/run`, that of a call is `call.state`.
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                where = path.relative_to(package).as_posix()
                moves = {_moved(node, is_in_run=where.startswith("_core/run/")) for node in ast.walk(function)} - {""}
                if moves:
                    movers[f"{where}: {function.name}"] |= moves
    assert movers == {
        "_core/run/engine.py: _send": {"send"},
        "_core/run/engine.py: _verdict": {"read_to_end"},
        "_core/run/engine.py: _carry_out": {"answer"},
        "_core/run/engine.py: _begin_run": {"answer", "begin_run"},
        "_core/run/last_steps.py: finish_run": {"end_run"},
        "_core/run/call.py: end": {"end"},
    }


def _moved(node: ast.AST, *, is_in_run: bool) -> str:
    """Return the name of the transition, or of the attribute, by which code moves the phase of a call; else empty."""
    match node:
        case ast.Call(func=ast.Attribute(value=holder, attr=name)) if name in _MOVES:
            pass
        case ast.Attribute(value=holder, attr="phase" as name, ctx=ast.Store()):
            pass
        case _:
            return ""
    is_of_call = ast.unparse(holder).endswith("state" if is_in_run else "call.state")
    return name if is_of_call else ""


def test_what_is_read_off_the_state() -> None:
    def shown(call: CallState) -> list[bool]:
        looks = (call.has_ended, call.is_run_open, call.is_run_over, call.is_stopped, call.is_aborted)
        return [*looks, call.has_abandoned_run]

    assert {phase: shown(_call(phase))[:3] for phase in Phase} == {
        Phase.READY: [False, False, False],
        Phase.OPEN: [False, True, False],
        Phase.READ: [False, True, False],
        Phase.OVER: [False, False, True],
        Phase.ANSWERING: [False, False, True],
        Phase.ENDED: [True, False, False],
    }
    assert {reason: shown(_call(Phase.OPEN, reason))[3:] for reason in Reason} == {
        Reason.NONE: [False, False, False],
        Reason.STOPPED: [True, False, False],
        Reason.ABORTED: [True, True, True],
        Reason.EXITED: [False, True, True],
        Reason.CUT: [False, False, True],
    }


def test_a_failure_that_arrives_in_the_same_read_as_the_stop_is_raised() -> None:
    # The chunk's END and the RUN_ERROR are made of one event, so that the stop comes between the two.
    chunk = TextMessageChunkEvent(message_id="m", delta="Hel")
    started = RunStartedEvent(thread_id="thread-1", run_id="run-1")
    agent = ScriptedAgent([started, chunk, RunErrorEvent(message="out of tokens")], thread_id="thread-1")

    async def main() -> bool:
        async with agent.stream("Hi", run_id="run-1") as run:
            async for event in run:
                if isinstance(event, TextMessageEndEvent):
                    run.cancel()
                    break
            with pytest.raises(RunFailedError, match="out of tokens"):
                await run.result()
        return run.partial.aborted

    assert anyio.run(main) is False
