"""Scenarios out of files, YAML or JSON; what is wrong in one is named by its place, with what is allowed there.

A file has `scenarios:`, a list, and maybe `defaults:`, members that each scenario has unless it says otherwise. Checks
of the defaults come before those of a scenario.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agui_client._core.ground.files import FILE_ERRORS, file_reason
from agui_client._core.protocol.patch import parse_json
from agui_client._core.protocol.schema import is_array, is_object
from agui_client.errors import UsageError
from agui_client.evaluation._scenarios import ExpectedCall, Judged, Limits, Pattern, ReadyChecks, Scenario, ScriptedTool
from agui_client.evaluation._sources import SOURCES, expanded, recorded_scenarios

_MEMBERS: Mapping[str, Sequence[str]] = {
    "": (*Scenario.model_fields, *SOURCES),
    "checks": tuple(ReadyChecks.__annotations__),
    "called": tuple(ExpectedCall.__annotations__),
    "called_in_order": tuple(ExpectedCall.__annotations__),
    **dict.fromkeys(("said", "not_said", "asked", "not_leaked"), tuple(Pattern.__annotations__)),
    "judge": tuple(Judged.__annotations__),
    "not_called": tuple(ExpectedCall.__annotations__),
    "tools": tuple(ScriptedTool.__annotations__),
    "limits": tuple(Limits.__annotations__),
    "approve": ("deny", "edit"),
    "answer": ("deny", "edit", "value"),
}
"""The names that are allowed, by the member of a scenario in which they stand."""


def read_scenarios(path: str | os.PathLike[str]) -> list[Scenario]:
    """Read a file of scenarios: .yaml or .yml (extra `evaluate`), or .json; or make them of a recording (.jsonl).

    Args:
        path: The file.

    Raises:
        UsageError: It cannot be read, or is wrong; the error names each place, and what is allowed there.
    """
    path = Path(path)
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return recorded_scenarios(path)
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8") from None
    except FILE_ERRORS as error:
        raise UsageError(f"{path} cannot be read: {file_reason(error)}") from error
    content = _json(path, text) if path.suffix == ".json" else _yaml(path, text)
    return scenarios_in(content, str(path), path.absolute().parent)


def scenarios_in(content: object, where: str, folder: Path | None = None, *, is_data: bool = False) -> list[Scenario]:
    """Make scenarios of the content of a file.

    Args:
        content: The content, as JSON.
        where: The name of the file, for errors.
        folder: The folder of the file, in which modules of checks are looked for, too.
        is_data: Whether anybody may have written the file, so that its regular expressions are to be harmless.

    Raises:
        UsageError: It is wrong.
    """
    if not is_object(content) or not is_array(content.get("scenarios")):
        raise UsageError(f"{where} has no list scenarios:, with a scenario in each entry")
    if unknown := sorted(map(str, content.keys() - {"scenarios", "defaults"})):
        raise UsageError(f"{where}: {unknown[0]}: is not known; the file has defaults: and scenarios:")
    defaults: object = content.get("defaults") or {}
    if not is_object(defaults):
        raise UsageError(f"{where}: defaults: is a mapping of members of scenarios")
    found: list[Scenario] = []
    problems: list[str] = []
    for number, each in enumerate(content["scenarios"]):
        place = f"{where}, scenarios[{number}]"
        if not is_object(each):
            problems.append(f"{place}: a scenario is a mapping with {', '.join(_MEMBERS[''])}")
            continue
        name = each.get("name")
        place = f"{place} ({name})" if isinstance(name, str) else place
        try:
            found += _scenarios_of(each, defaults, {"folder": folder, "is_data": is_data})
        except ValidationError as error:
            problems += _problems(error, place)
        except UsageError as error:
            problems.append(f"{place}: {error}")
    if problems:
        refusal = UsageError(problems[0])
        for other in problems[1:]:
            refusal.add_note(other)
        raise refusal
    return found


def _scenarios_of(entry: Mapping[str, Any], defaults: Mapping[str, Any], context: Mapping[str, Any]) -> list[Scenario]:
    """Return the scenarios for which an entry stands."""
    folder: Path | None = context["folder"]
    members = [entry] if folder is None else expanded(entry, folder)
    whole = [{**defaults, **each, **_added(defaults, each)} for each in members]
    return [Scenario.model_validate(each, context=dict(context)) for each in whole]


def _added(defaults: Mapping[str, Any], scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checks of the defaults with those of a scenario behind them, which the others do not replace."""
    first, second = defaults.get("checks"), scenario.get("checks")
    return {"checks": [*first, *second]} if is_array(first) and is_array(second) else {}


def _problems(error: ValidationError, where: str) -> Iterator[str]:
    for details in error.errors(include_url=False, include_input=False):
        steps = [step for step in details["loc"] if not str(step).startswith("<")]
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
        is_unknown = details["type"] == "extra_forbidden"
        names = [str(step) for step in (steps[:-1] if is_unknown else steps)]
        inside = next((step for step in reversed(names) if step in _MEMBERS), "")
        what = "is not known" if is_unknown else details["msg"][0].lower() + details["msg"][1:]
        allowed = f"; allowed: {', '.join(_MEMBERS[inside])}" if is_unknown else ""
        yield f"{where}{place}: {what}{allowed}"


def _json(path: Path, text: str) -> object:
    try:
        return parse_json(text)
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from error


def _yaml(path: Path, text: str) -> object:
    try:
        yaml = import_module("yaml")
    except ImportError as error:
        raise UsageError("YAML needs PyYAML: pip install 'agui-client[evaluate]'; or write the file as JSON") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        hint = "; between brackets or braces, put texts with ? : , or # into quotes" if "flow" in problem else ""
        raise UsageError(f"{path} is not YAML: {problem}{hint}") from error
