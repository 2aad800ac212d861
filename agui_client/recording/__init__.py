"""Recordings of runs: made with `agent.use(record("run.jsonl"))`, answered from by `ReplayAgent("run.jsonl")`.

The format is in `agui_client.recording.format`: one JSON object a line. `Recording.read` gives it as objects.
"""

from agui_client.recording.comparison import Comparison, Difference, compare
from agui_client.recording.failures import ReplayedError
from agui_client.recording.inspector import inspector_page
from agui_client.recording.matching import UnrecordedRequestError
from agui_client.recording.reading import Exchange, Recording, RecordingError
from agui_client.recording.recorder import Recorder, record
from agui_client.recording.replay_agent import ReplayAgent

__all__ = [
    "Comparison",
    "Difference",
    "Exchange",
    "Recorder",
    "Recording",
    "RecordingError",
    "ReplayAgent",
    "ReplayedError",
    "UnrecordedRequestError",
    "compare",
    "inspector_page",
    "record",
]
