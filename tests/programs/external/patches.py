"""json-patch-tests: each patch of the suite, applied by this client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ag_ui.core import StateDeltaEvent
from pydantic import ValidationError

from agui_client._core.protocol.patch import Document, PatchFailed, is_same_json
from support.typescript import installed

from .judging import Case

PACKAGE = "json-patch-test-suite", "1.1.0"

ON_PURPOSE: dict[str, str] = {}


def cases() -> Iterator[Case]:
    """Apply each patch that the suite does not disable."""
    folder = installed(PACKAGE) / "node_modules" / PACKAGE[0]
    for file in ("tests.json", "spec_tests.json"):
        for number, given in enumerate(json.loads((folder / file).read_text("utf-8"))):
            if not given.get("disabled") and "patch" in given:
                yield Case(f"{file} {number}: {given.get('comment', '')}", _problem(given))


def _problem(given: dict[str, Any]) -> str | None:
    document = Document(given["doc"])
    before = json.dumps(given["doc"])
    try:
        document.patch(StateDeltaEvent.model_validate({"delta": given["patch"]}, strict=True).delta)
    except (PatchFailed, ValidationError) as refused:
        if json.dumps(document.look()) != before:
            return f"a patch that failed left {document.look()!r}"
        return None if "error" in given else f"was refused: {refused}"
    if "error" in given:
        return f"was applied, and is refused by the suite: {given['error']}"
    if "expected" in given and not is_same_json(document.look(), given["expected"]):
        return f"gave {document.look()!r}, not {given['expected']!r}"
    return None
