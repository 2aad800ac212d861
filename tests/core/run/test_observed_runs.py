"""Observers and hooks: what they are given about a run, argument by argument."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import RunAgentInput

from agui_client import AGUIError, HttpAgent, RunObserver, Subscriber
from agui_client.testing import ScriptedAgent, faults, serve_bytes, sse, text, turn
from agui_client.types import RunScope

HELLO = turn(text("Hello."))


class Watching(RunObserver):
    """Takes down what it is given."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def on_start(self, run: RunScope) -> None:
        self.seen.append(("start", run))

    def on_attempt_end(self, run: RunScope, attempt: Any, error: BaseException | None) -> None:
        self.seen.append(("attempt", run, type(attempt).__name__, type(error)))

    def on_end(self, run: RunScope, end: Any) -> None:
        self.seen.append(("end", run, end.ending))


def test_an_observer_is_given_the_same_run_from_its_start_to_its_end() -> None:
    watching = Watching()
    with serve_bytes(sse(HELLO)) as server:
        HttpAgent(server.url).add_observer(watching).run_agent_sync("Hi")
    run = watching.seen[0][1]
    assert isinstance(run, RunScope)
    assert watching.seen == [("start", run), ("attempt", run, "Attempt", type(None)), ("end", run, "success")]


def test_an_observer_is_given_the_error_of_a_request_that_failed() -> None:
    watching = Watching()
    with serve_bytes(faults.status(503)) as server, pytest.raises(AGUIError) as caught:
        HttpAgent(server.url).add_observer(watching).run_agent_sync("Hi")
    run = watching.seen[0][1]
    assert ("attempt", run, "Attempt", type(caught.value)) in watching.seen


@pytest.mark.parametrize("thread_id", ["thread-1", "another"])
def test_a_hook_is_given_the_input_of_its_run(thread_id: str) -> None:
    inputs: list[RunAgentInput] = []

    class Hearing(Subscriber):
        def on_run_finalized(self, context: Any) -> None:
            inputs.append(context.input)
            assert context.thread_id == context.input.thread_id == thread_id
            assert context.run_id == context.input.run_id

    agent = ScriptedAgent(HELLO, thread_id=thread_id)
    agent.subscribe(Hearing())
    agent.run_agent_sync("Hi")
    assert [(each.run_id, each.messages) for each in inputs] == [(each.run_id, each.messages) for each in agent.inputs]
