"""A run as an RxPY observable: text in batches for a slow screen, and only the interesting changes of the state.

`observe` is cold: subscribing starts the run, disposing aborts it. `observe_state` and `observe_messages` are hot: they
give the current value, then every change, across runs.
"""

import sys
from typing import Any

from ag_ui.core import Event, TextMessageContentEvent
from reactivex import Observable
from reactivex import operators as ops

from agui_client import HttpAgent
from agui_client.demo import demo_agent
from agui_client.testing import serve


def delta_of(event: Event) -> str:
    return event.delta if isinstance(event, TextMessageContentEvent) else ""


def joined(deltas: list[str]) -> str:
    return "".join(deltas)


def weather_in(state: Any) -> str:
    trip = state.get("trip", {})
    return str(trip.get("weather") or "unknown")


def main(url: str) -> None:
    agent = HttpAgent(url)

    # The state changes many times; this observable gives the weather, and only when it changes.
    weather: Observable[str] = agent.observe_state().pipe(ops.map(weather_in), ops.distinct_until_changed())
    watching = weather.subscribe(lambda now: print(f"[weather: {now}]"))

    # Words arrive every few milliseconds; the screen is drawn ten times a second.
    text = agent.observe("Plan my Saturday in Oslo, and book the ferry.").pipe(
        ops.map(delta_of), ops.buffer_with_time(0.1), ops.map(joined), ops.filter(bool)
    )
    shown = text.pipe(ops.do_action(lambda piece: print(piece, end="", flush=True)))
    shown.run()  # a script waits for the end; an application would subscribe

    watching.dispose()
    print(f"{len(agent.messages)} messages")


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        main(sys.argv[1] if len(sys.argv) > 1 else server.url)
