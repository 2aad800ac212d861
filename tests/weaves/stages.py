"""Streams through the client's stages without any I/O: decode, the pipeline, reduce, as an exchange drives them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agui_client import ProtocolError, ProtocolWarning, Reducer, RunFailedError, UnrecognizedEvent
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.events import WireEvent
from agui_client._core.protocol.pipeline import Pipeline
from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.protocol.warnings import WarningLog
from weaves.naive import Json

if TYPE_CHECKING:
    from ag_ui.core import Event

Way: TypeAlias = Literal["wire", "loose", "typed"]
"""How events reach the pipeline: as the decoder hands them on, all as JSON objects, or as an agent in process does."""
Look: TypeAlias = Callable[["Event", Reducer], object]
"""Called after each event."""


_MINTED = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Verdict:
    """What the client made of a stream."""

    error: ProtocolError | RunFailedError | None
    """What the caller would be told; None if the run finished."""
    delivered: Sequence[Event]
    """What application code saw."""
    messages: list[Json]
    """What is held afterwards, as JSON."""
    state: Any
    """What is held afterwards."""
    warnings: Sequence[ProtocolWarning]
    """What was tolerated."""

    @property
    def name(self) -> str:
        """The verdict in a word, and the rule that was broken."""
        if isinstance(self.error, ProtocolError):
            return f"{type(self.error).__name__} {self.error.rule}"
        if self.error is not None:
            return "run failed"
        return "finished with warnings" if self.warnings else "finished"

    @property
    def comparable(self) -> tuple[object, ...]:
        """Everything that must not depend on how the stream came."""
        told = [(warning.rule, warning.path, warning.event_type, warning.count) for warning in self.warnings]
        delivered = [as_json(event) for event in self.delivered]
        return self.name, _without_minted(delivered), _without_minted(self.messages), self.state, told


def _without_minted(value: Any) -> Any:
    """The value with the ids that the client minted for retired events replaced by one: they differ at every run."""
    if is_object(value):
        return {name: _without_minted(member) for name, member in value.items()}
    if is_array(value):
        return [_without_minted(item) for item in value]
    return "minted" if isinstance(value, str) and _MINTED.fullmatch(value) else value


def judged(
    frames: Iterable[str],
    *,
    way: Way = "wire",
    thread_id: str = "thread-1",
    run_id: str = "run-1",
    look: Look = lambda event, reducer: None,
) -> Verdict:
    """Run the frames of one stream through the stages.

    Args:
        frames: The data of each frame.
        way: How events reach the pipeline.
        thread_id: The thread that was asked for.
        run_id: The run that was asked for.
        look: Called with every event and the reducer that has it.
    """
    log = WarningLog()
    reducer, delivered = Reducer(warnings=log), list["Event"]()

    pipeline = Pipeline(reducer, log)
    pipeline.is_conforming = way == "wire"
    pipeline.verifier.begin(thread_id, run_id)
    error: ProtocolError | RunFailedError | None = None
    decode = _decoder(log, way)
    try:
        for data in frames:
            for event in pipeline.feed(decode(data)):
                delivered.append(event)
                look(event, reducer)
        pipeline.verifier.finish()
        failure = pipeline.outcome.error
        error = None if failure is None else RunFailedError(failure)
    except ProtocolError as raised:
        error = raised
    return Verdict(error, delivered, [as_json(each) for each in reducer.messages], reducer.state, log.records())


def _decoder(log: WarningLog, way: Way) -> Callable[[str], WireEvent]:
    feed = Decoder(log).feed

    def loose(data: str) -> WireEvent:
        event = feed(data)
        # The decoder has the verdict on what is no event; everything else is left to the stages behind it.
        return event if isinstance(event, UnrecognizedEvent) else UnrecognizedEvent(event.type.value, json.loads(data))

    return loose if way == "loose" else feed


def as_json(model: Any) -> Json:
    """A model by its wire names, its values as they are held, even those that no JSON could carry."""
    dumped: Json = model.model_dump(by_alias=True, warnings=False)
    return dumped


def encoded(event: Json) -> str:
    """An event as the data of a frame."""
    return json.dumps(event, ensure_ascii=False)
