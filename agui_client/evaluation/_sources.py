"""Scenarios out of what is there already: a conversation that was recorded, and the rows of a table.

In a file, an entry with `recording:` has what was decided in the recorded conversation, unless it says otherwise; an
entry with `rows:` stands for as many scenarios as there are rows, whose values take the place of `{column}`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from agui_client._core.protocol.message_text import content_text
from agui_client._core.protocol.schema import is_array, is_object
from agui_client.batch._rows import read_rows
from agui_client.errors import UsageError
from agui_client.evaluation._freezing import frozen
from agui_client.evaluation._scenarios import Scenario
from agui_client.evaluation._trials import Trial, Turn
from agui_client.recording._reading import Recording

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from agui_client.recording._reading import Exchange

SOURCES = ("recording", "rows")
"""The members of an entry that stand for others."""
_PLACE = re.compile(r"\{([^{}]+)\}")


def recorded_scenarios(recording: Recording | str | os.PathLike[str]) -> list[Scenario]:
    """Make a scenario of each conversation in a recording: its prompts, and the results and decisions that were given.

    It has no checks: add them with `scenario.model_copy(update={"checks": [...]})`, or name the recording in a file.

    Args:
        recording: The recording, or its file.

    Raises:
        UsageError: It cannot be read, or the user said nothing in it.
    """
    read = recording if isinstance(recording, Recording) else Recording.read(recording)
    threads: dict[str, list[Exchange]] = {}
    for each in read.exchanges:
        # What agents inside of the agent were asked is a part of its reply.
        if each.request.parent is None and each.request.base is None and each.request.verb == "run":
            threads.setdefault(each.input.thread_id, []).append(each)
    stem = read.path.name.partition(".")[0]
    try:
        made = [
            _scenario(stem if len(threads) == 1 else f"{stem} {number}", exchanges)
            for number, exchanges in enumerate(threads.values(), 1)
        ]
    except ValidationError as error:
        place, why = ".".join(map(str, error.errors()[0]["loc"])), error.errors()[0]["msg"]
        raise UsageError(f"the recording {read.path} makes no scenario: {place}: {why}") from None
    found = [each for each in made if each is not None]
    if not found:
        raise UsageError(f"in the recording {read.path} the user says nothing, so there is no scenario to make of it")
    return found


def _scenario(name: str, exchanges: Sequence[Exchange]) -> Scenario | None:
    inputs = [each.input for each in exchanges]
    says = list(_prompts(inputs))
    if not says:
        return None
    executed = [line.execution for each in exchanges for line in each.tools if line.result is not None]
    answered: Any = [SimpleNamespace(entry=entry) for input in inputs for entry in input.resume or ()]
    turns = [Turn(prompt) for prompt in says]
    turns[0] = Turn(says[0], tool_executions=executed, answered=answered)
    members = frozen(Scenario(name=name, says=says), Trial(name, turns=turns), inputs)
    return Scenario.model_validate({key: value for key, value in members.items() if value is not None})


def _prompts(inputs: Iterable[RunAgentInput]) -> Iterator[str]:
    """Yield what the user said, each message once."""
    seen: set[str] = set()
    for input in inputs:
        for message in input.messages:
            if message.role == "user" and message.id not in seen:
                seen.add(message.id)
                yield content_text(message.content)


def expanded(entry: Mapping[str, Any], folder: Path | None) -> list[dict[str, Any]]:
    """Return the scenarios for which an entry of a file stands; the entry itself without `recording:` and `rows:`.

    Args:
        folder: The folder in which the files are that it names.

    Raises:
        UsageError: A file cannot be read, or a column is missing.
    """
    own = {name: value for name, value in entry.items() if name not in SOURCES}
    if "recording" in entry:
        recorded = recorded_scenarios((folder or Path()) / str(entry["recording"]))
        bases = [{name: getattr(each, name) for name in each.model_fields_set} for each in recorded]
        several = len(bases) > 1 and "name" in own
        named = [{"name": f"{own['name']} {number}"} if several else {} for number in range(1, len(bases) + 1)]
        owns = [{**base, **own, **name} for base, name in zip(bases, named, strict=True)]
    else:
        owns = [own]
    return [each for one in owns for each in (_of_rows(one, entry["rows"], folder) if "rows" in entry else [one])]


def _of_rows(entry: Mapping[str, Any], rows: Any, folder: Path | None) -> Iterator[dict[str, Any]]:
    source = (folder or Path()) / rows if isinstance(rows, str) else rows
    # The rows are read as those of a batch; none of their columns is a prompt.
    found = [each.data for each in read_rows(source, lambda row: "row", None)]
    if not found:
        raise UsageError("rows: there is none")
    made = [_filled(entry, row) for row in found]
    names = [each.get("name") for each in made]
    for number, each in enumerate(made, 1):
        yield {**each, "name": f"{each.get('name')} {number}"} if names.count(each.get("name")) > 1 else each


def _filled(value: Any, row: Mapping[str, Any]) -> Any:
    """Return a value with those of a row in the places of `{column}`; alone in a text, it stays what it is."""
    if is_object(value):
        return {name: _filled(item, row) for name, item in value.items()}
    if is_array(value):
        return [_filled(item, row) for item in value]
    if not isinstance(value, str):
        return value
    if missing := [name for name in _PLACE.findall(value) if name not in row]:
        raise UsageError(f"rows: there is no column {missing[0]!r}; there are {', '.join(map(str, row))}")
    whole = _PLACE.fullmatch(value)
    return row[whole[1]] if whole else _PLACE.sub(lambda place: str(row[place[1]]), value)
