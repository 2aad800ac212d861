"""Bytes: however a stream is spelled and cut, the verdict is the same."""

from __future__ import annotations

import json
from random import Random

import anyio
import pytest
from ag_ui.core import Event
from hypothesis import given
from hypothesis import strategies as st

from agui_client import HttpAgent, ProtocolError, RunFailedError
from support.leaks import nothing_left_behind
from weaves import Verdict, as_json, encoded, exact, judged, spoil, weave
from weaves.memory import Server, cut, framed, framed_somehow

randoms = st.randoms(use_true_random=False)


@st.composite
def streams(draw: st.DrawFn) -> list[str]:
    """The frames of a stream, legal or spoiled; those without data are no events and left out."""
    random: Random = draw(randoms)
    events = weave(random).events
    frames = spoil(random, events).frames if random.randrange(2) else [encoded(event) for event in events]
    return [frame for frame in frames if frame.strip()]


def arrived(pieces: list[bytes], backend: str) -> Verdict:
    """The verdict of an agent whose server sends these pieces."""
    agent = Server(pieces).agent()
    return anyio.run(_streamed, agent, backend=backend)


async def _streamed(agent: HttpAgent) -> Verdict:
    delivered: list[Event] = []
    error = None
    async with agent.stream(run_id="run-1") as run:
        try:
            async for event in run:
                delivered.append(event)  # noqa: PERF401 - a comprehension that raises adds nothing
        except (ProtocolError, RunFailedError) as raised:
            error = raised
        messages = [as_json(message) for message in run.messages]
        return Verdict(error, delivered, messages, run.state, run.warnings)


@pytest.mark.requirement("SSE-4", "SSE-5", "SSE-6", "SSE-7", "PROC-12")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(frames=streams(), random=randoms)
def test_the_verdict_is_the_same_in_any_spelling_and_any_pieces(
    backend: str, frames: list[str], random: Random
) -> None:
    verdict = arrived(cut(random, framed_somehow(random, frames)), backend)
    assert exact(list(verdict.comparable)) == exact(list(judged(frames).comparable))


@pytest.mark.requirement("TRUNC-1", "SSE-12", "SET-12")
@given(random=randoms, data=st.data())
def test_a_body_that_breaks_off_anywhere_is_what_its_last_run_said_and_else_incomplete(
    random: Random, data: st.DataObject
) -> None:
    body = framed(encoded(event) for event in weave(random).events)
    body = body[: data.draw(st.integers(0, len(body)))]
    assert arrived(cut(random, body), "asyncio").name.startswith(expected_of(body))


def expected_of(body: bytes) -> str:
    """The verdict on a body that breaks off, read frame by frame: a last one counts if its JSON is whole."""
    *whole, last = [frame.removeprefix(b"data:").strip() for frame in body.split(b"\n\n")]
    turns = [event["type"] for event in map(json.loads, whole) if event["type"].startswith("RUN_")]
    if last and b"data:".startswith(last):
        last = b""
    try:
        turns += [json.loads(last)["type"]] if last else []
    except ValueError:
        return "IncompleteRunError TRUNC-1"
    said = {"RUN_FINISHED": "finished", "RUN_ERROR": "run failed"}
    return next((said.get(turn, "Incomplete") for turn in reversed(turns) if turn.startswith("RUN_")), "Incomplete")


@pytest.mark.requirement("PROC-12")
@given(random=randoms)
def test_the_sync_surface_gives_the_same_verdict(random: Random) -> None:
    events = weave(random).events
    frames = [encoded(event) for event in events]
    agent = Server(cut(random, framed(frames))).agent()
    delivered: list[Event] = []
    error = None
    with agent.stream_sync(run_id="run-1") as run:
        try:
            for event in run:
                delivered.append(event)  # noqa: PERF402 - what came before an error counts
        except (ProtocolError, RunFailedError) as raised:
            error = raised
        messages = [as_json(message) for message in run.messages]
        verdict = Verdict(error, delivered, messages, run.state, run.warnings)
    assert exact(list(verdict.comparable)) == exact(list(judged(frames).comparable))


@pytest.mark.anyio
async def test_leaving_a_body_that_never_waits_leaves_no_generator_behind() -> None:
    frames = [encoded(event) for event in weave(Random(1)).events]
    server = Server([framed(frames[:1]), *[b": alive\n\n"] * 5000], waits=False)
    async with nothing_left_behind(), server.agent().stream() as run:
        await anext(run)
