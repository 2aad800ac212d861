"""a2ui-core: the values that components of the specification's examples are bound to, as official Python has them.

They are resolved in a process of its own, as its packages are not this client's; the checks of components, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.a2ui import Drawn, Surfaces
from support.a2ui_fixtures import MISSING, ROOT, VERSIONS, examples, operations_of, shown

from .judging import Case
from .packages import python_package

PACKAGES = (("a2ui-core", "0.4.0"), ("babel", "2.19.0"))
_SECONDS = 120
_PROGRAM = """
import json, sys, warnings
from a2ui.core.basic_catalog import BasicCatalog
from a2ui.core.processing import MessageProcessor
from a2ui.core.resolution.data_context import DataContext

warnings.simplefilter("ignore")
for line in sys.stdin:
    asked = json.loads(line)
    processor = MessageProcessor([BasicCatalog("v0.9", locale="en_US")])
    processor.process_messages(asked["operations"])
    surface = processor.model.get_surface(asked["surface"])
    answers = []
    for at, value in asked["values"]:
        try:
            answers.append(["value", DataContext(surface, path=at).resolve_dynamic_value(value)])
        except Exception as error:
            answers.append(["error", f"{type(error).__name__}: {error}"])
    print(json.dumps(answers), flush=True)
"""

_QUOTED = "it writes the quoted 'at' of a pattern as 'AMt'"
_PATTERN = "a pattern of an agent may take for ever, and is not carried out here"
_PLACES = {
    "16_workout-summary: date at /, text": _QUOTED,
    "30_live-invitation-builder: invite-date-text at /, text": _QUOTED,
    "32_advanced-form-validator: phone-field at /, check 0": _PATTERN,
    "32_advanced-form-validator: zip-field at /, check 0": _PATTERN,
}
ON_PURPOSE = {f"{version}/{place}": reason for version in VERSIONS for place, reason in _PLACES.items()}


def cases() -> Iterator[Case]:
    """Compare each bound value of each example."""
    if not ROOT.exists():
        raise SystemExit(MISSING)
    os.environ["TZ"] = "UTC"
    time.tzset()
    paths = [each for version in VERSIONS for each in examples(version)]
    asked = [_Asked(path) for path in paths]
    for each, answers in zip(asked, _answers(asked), strict=True):
        for (name, ours, _, _), (kind, theirs) in zip(each.values, answers, strict=True):
            problem = None if kind == "value" and _is_same(ours, theirs) else f"{ours!r}, there {theirs!r}"
            yield Case(f"{each.name}: {name}", problem)


class _Asked:
    """The bound values of an example."""

    def __init__(self, path: Path) -> None:
        self.name = f"{path.parts[-5]}/{path.stem}"
        self.operations = operations_of(path)
        (self.surface,) = Surfaces([shown(*self.operations)]).values()
        written = {
            each["id"]: each
            for operation in self.operations
            for each in operation.get("updateComponents", {}).get("components", ())
        }
        self.values = [found for node in self.surface.tree.walk() for found in _bound(node, written.get(node.id, {}))]
        """Names, values here, places, and values as they were written."""

    def json(self) -> str:
        """Return the example as the program reads it."""
        values = [(at, written) for _, _, at, written in self.values]
        operations = [{"version": "v0.9", **each} for each in self.operations]
        return json.dumps({"operations": operations, "surface": self.surface.id, "values": values})


def _bound(node: Drawn, written: dict[str, Any]) -> Iterator[tuple[str, Any, str, Any]]:
    for name, value in written.items():
        if is_object(value) and ("path" in value or "call" in value) and "componentId" not in value:
            yield f"{node.id} at {node.at}, {name}", node.values.get(name), node.at, value
    for number, check in enumerate(written.get("checks", ())):
        message = check.get("message")
        fails = None if message in node.unchecked else message in node.failed
        yield (
            f"{node.id} at {node.at}, check {number}",
            None if fails is None else not fails,
            node.at,
            _condition(check),
        )


def _condition(check: dict[str, Any]) -> Any:
    return check.get("condition", {name: each for name, each in check.items() if name != "message"})


def _is_same(ours: Any, theirs: Any) -> bool:
    if is_array(ours) and is_array(theirs):
        return len(ours) == len(theirs) and all(map(_is_same, ours, theirs))
    return bool(ours == theirs)


def _answers(asked: list[_Asked]) -> list[list[tuple[str, Any]]]:
    folders = [str(python_package(*each)) for each in PACKAGES]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input="".join(f"{each.json()}\n" for each in asked),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"a2ui-core: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]
