"""Recordings of runs: made with `agent.use(record("run.jsonl"))`, replayed by `ReplayAgent("run.jsonl")`.

The format is documented in `_format`: one JSON object a line. `Recording.read` gives it as objects.
"""

from agui_client.recording._failures import ReplayedError
from agui_client.recording._matching import UnrecordedRequestError
from agui_client.recording._reading import Exchange, Recording, RecordingError
from agui_client.recording._recorder import Recorder, record
from agui_client.recording._replay_agent import ReplayAgent

__all__ = [
    "Exchange",
    "Recorder",
    "Recording",
    "RecordingError",
    "ReplayAgent",
    "ReplayedError",
    "UnrecordedRequestError",
    "record",
]
