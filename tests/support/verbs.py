"""The five verbs as values, `stream` on both event loops, and what they all can say about how a run ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, Unpack

import anyio
import pytest
from ag_ui.core import (
    Event,
    Message,
    RunFinishedEvent,
    RunFinishedOutcome,
    RunFinishedSuccessOutcome,
    TokenUsage,
    aggregate_token_usage,
)
from reactivex.abc import DisposableBase

from support.waiting import LIMIT, in_thread

if TYPE_CHECKING:
    from agui_client import AbstractAgent, RunResult
    from agui_client.types import RunOptions


Prompt: TypeAlias = "str | Message | dict[str, object] | None"


@dataclass
class Ending:
    """How a run ended, as its caller saw it."""

    events: list[Event] | None = None
    """What was iterated; None for verbs that show no events."""
    outcome: RunFinishedOutcome | None = None
    usage: list[TokenUsage] = field(default_factory=list["TokenUsage"])
    error: Exception | None = None
    """What was raised, or reported to `on_error`."""
    result: RunResult | None = None
    """What was returned; None for observables, and when something was raised."""

    @property
    def types(self) -> list[str]:
        """The types of the events."""
        return [event.type.value for event in self.events or ()]

    def settle(self, result: RunResult) -> None:
        """Take note of a result."""
        self.result, self.outcome, self.usage = result, result.outcome, result.usage


class Verb(Protocol):
    """Runs an agent to the end of the run, in a bounded time."""

    def __call__(self, agent: AbstractAgent, prompt: Prompt = None, **options: Unpack[RunOptions]) -> Ending: ...


def _awaited(agent: AbstractAgent, prompt: Prompt = None, **options: Unpack[RunOptions]) -> Ending:
    ending = Ending()

    async def main() -> None:
        with anyio.fail_after(LIMIT):
            ending.settle(await agent.run_agent(prompt, **options))

    return _caught(ending, lambda: anyio.run(main))


def _iterated(backend: str) -> Verb:
    def verb(agent: AbstractAgent, prompt: Prompt = None, **options: Unpack[RunOptions]) -> Ending:
        events: list[Event] = []
        ending = Ending(events)

        async def main() -> None:
            with anyio.fail_after(LIMIT):
                async with agent.stream(prompt, **options) as run:
                    async for event in run:
                        events.append(event)  # noqa: PERF401 (an error must leave what came before it)
                    ending.settle(await run.result())

        return _caught(ending, lambda: anyio.run(main, backend=backend))

    return verb


def _called(agent: AbstractAgent, prompt: Prompt = None, **options: Unpack[RunOptions]) -> Ending:
    ending = Ending()
    return _caught(ending, lambda: ending.settle(in_thread(lambda: agent.run_agent_sync(prompt, **options))))


def _looped(agent: AbstractAgent, prompt: Prompt = None, **options: Unpack[RunOptions]) -> Ending:
    events: list[Event] = []
    ending = Ending(events)

    def main() -> None:
        with agent.stream_sync(prompt, **options) as run:
            events.extend(run)
            ending.settle(run.result())

    return _caught(ending, lambda: in_thread(main))


def _observed_in_thread(agent: AbstractAgent, prompt: Prompt = None, **options: Unpack[RunOptions]) -> Ending:
    over = threading.Event()
    ending, subscribe = _observer(over.set)
    in_thread(lambda: subscribe(agent, prompt, options))
    assert over.wait(LIMIT)
    return ending


def _observed_in_loop(agent: AbstractAgent, prompt: Prompt = None, **options: Unpack[RunOptions]) -> Ending:
    async def main() -> Ending:
        over = anyio.Event()
        ending, subscribe = _observer(over.set)
        subscribe(agent, prompt, options)
        with anyio.fail_after(LIMIT):
            await over.wait()
        return ending

    return anyio.run(main)


Subscribe = Callable[["AbstractAgent", Prompt, "RunOptions"], DisposableBase]


def _observer(over: Callable[[], None]) -> tuple[Ending, Subscribe]:
    events: list[Event] = []
    ending = Ending(events)

    def completed() -> None:
        last = next(event for event in reversed(events) if isinstance(event, RunFinishedEvent))
        ending.outcome = last.outcome or RunFinishedSuccessOutcome()
        ending.usage = aggregate_token_usage(last.usage or [])
        over()

    def failed(error: Exception) -> None:
        ending.error = error
        over()

    def subscribe(agent: AbstractAgent, prompt: Prompt, options: RunOptions) -> DisposableBase:
        return agent.observe(prompt, **options).subscribe(events.append, failed, completed)

    return ending, subscribe


def _caught(ending: Ending, run: Callable[[], None]) -> Ending:
    try:
        run()
    except Exception as error:
        ending.error = error
    return ending


VERBS: Mapping[str, Verb] = {
    "run_agent-asyncio": _awaited,
    "stream-asyncio": _iterated("asyncio"),
    "stream-trio": _iterated("trio"),
    "run_agent_sync": _called,
    "stream_sync": _looped,
    "observe-thread": _observed_in_thread,
    "observe-loop": _observed_in_loop,
}
"""Every way to run an agent; `run_agent` is `stream` to its end, so one loop is enough for it."""

THOROUGH = ("stream-asyncio", "stream-trio")
"""The verbs that meet every case of a long list: all share one way to the result, and the two loops differ below it.

Of trio, cases that are not chosen are left to a soak.
"""


def by_verb(
    argument: str,
    cases: Mapping[str, object],
    chosen: Collection[str],
    verbs: Mapping[str, Verb] | None = None,
    thorough: Collection[str] = THOROUGH,
) -> pytest.MarkDecorator:
    """Run a test once with each case and thorough verb, and with the chosen cases by every other verb.

    Args:
        argument: The name of the test's argument for the case; the verb's is "verb".
        cases: The cases by name.
        chosen: The names of the cases that each verb meets.
        verbs: The verbs; all of them by default.
        thorough: The names of the verbs that meet every case; both event loops by default, which differ where bytes
            are read.
    """
    assert set(chosen) <= set(cases)
    return pytest.mark.parametrize(
        ("verb", argument),
        [
            pytest.param(verb, case, id=f"{verb_name}-{name}", marks=_marks(verb_name, name in chosen, thorough))
            for verb_name, verb in (verbs or VERBS).items()
            for name, case in cases.items()
            if verb_name in thorough or name in chosen
        ],
    )


def _marks(verb_name: str, is_chosen: bool, thorough: Collection[str]) -> list[pytest.MarkDecorator]:
    return [pytest.mark.soak] if verb_name == "stream-trio" and not is_chosen and len(thorough) > 1 else []


every_verb = pytest.mark.parametrize("verb", [pytest.param(verb, id=name) for name, verb in VERBS.items()])
"""Run a test once with each."""

KINDS = {name: VERBS[name] for name in ("run_agent-asyncio", "stream-trio", "stream_sync", "observe-loop")}
"""One verb of each kind, and both event loops: for what the engine does, which is the same for all verbs."""

every_kind_of_verb = pytest.mark.parametrize("verb", [pytest.param(verb, id=name) for name, verb in KINDS.items()])


RESULT_VERBS = {name: verb for name, verb in VERBS.items() if not name.startswith("observe")}
"""Those that give a result; observables give events."""

every_result_verb = pytest.mark.parametrize(
    "verb", [pytest.param(verb, id=name) for name, verb in RESULT_VERBS.items()]
)

EVENT_VERBS = {name: verb for name, verb in VERBS.items() if not name.startswith("run_agent")}
"""Those that show events."""


def shown(messages: list[Message]) -> list[dict[str, object]]:
    """Messages as JSON objects, for comparing whole values and reading what differs."""
    return [message.model_dump(mode="json", by_alias=True, exclude_none=True) for message in messages]
