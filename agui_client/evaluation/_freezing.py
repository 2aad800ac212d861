"""The scenario of a reproduction: a conversation that was held, with everything fixed that was decided in it.

A reproduction is a recording with one more line, of the kind "scenario", which other readers of recordings skip. It is
data, as reproductions are sent around: it names checks, and no reader imports what it names or asks whom it names.

To change

- what a reproduction has of a conversation that failed: `frozen` and `MEMBERS` here; how it is held again:
  `evaluation/_reproductions.py`; how it is made short: `evaluation/_shrinking.py`
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from agui_client._core.ground.files import replace_private
from agui_client._core.ground.secrets import hidden_line
from agui_client._core.protocol.patch import parse_json
from agui_client._core.protocol.schema import is_object
from agui_client.evaluation._scenarios import place_of
from agui_client.recording._reading import Recording

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput, Tool

    from agui_client._core.tools.context import ToolExecution
    from agui_client.evaluation._scenarios import Scenario
    from agui_client.evaluation._trials import Trial

KIND = "scenario"
"""The kind of the line."""
_WORD = b'"scenario"'
MEMBERS = frozenset({"name", "checks", "limits", "says", "state", "tools", "approve", "answer"})
"""The members of a scenario that a reproduction has: all that are data, and none that names an agent or needs one."""
_UNUSED = {"error": "This tool was not called in the recording."}


def make_reproduction(path: Path, scenario: Scenario, trial: Trial) -> None:
    """Make a reproduction of a recording; of one that is a reproduction, the scenario is replaced.

    Args:
        path: The file.
        trial: The conversation that was recorded.
    """
    held = {
        "kind": KIND,
        "scenario": frozen(scenario, trial, _inputs(Recording.read(path))),
        "conversation": trial.thread_id,
    }
    line = json.dumps(held, ensure_ascii=False, default=partial(to_jsonable_python, fallback=repr))
    lines = [each for each in path.read_bytes().splitlines() if scenario_line(each) is None]
    replace_private(path, b"\n".join([*lines, hidden_line(line).encode(), b""]))


def reproduction_file(thread_id: str, paths: Iterable[Path]) -> Path | None:
    """Return the reproduction of a conversation among files; None if there is none.

    Args:
        thread_id: The id of the conversation.
        paths: The files.
    """
    for path in paths:
        members = map(scenario_line, path.read_bytes().splitlines())
        if any(each is not None and each.get("conversation") == thread_id for each in members):
            return path
    return None


def scenario_line(line: bytes) -> Mapping[str, Any] | None:
    """Return the members of the line that is the scenario of a reproduction, however an editor wrote it; else None."""
    if _WORD not in line:  # most lines are events, which need not be parsed for this
        return None
    try:
        members: object = parse_json(line)
    except ValueError:
        return None
    return members if is_object(members) and members.get("kind") == KIND else None


def _inputs(recording: Recording) -> list[RunAgentInput]:
    return [each.input for each in recording.exchanges if each.request.base is None]


def frozen(scenario: Scenario, trial: Trial, inputs: Sequence[RunAgentInput]) -> dict[str, Any]:
    """Return a scenario as values for JSON, in which nothing is left open that was decided in a conversation.

    Args:
        trial: The conversation.
        inputs: The recorded inputs.
    """
    offered = {tool.name: tool for input in inputs for tool in input.tools or ()}
    scripts = {each["name"]: each for each in scenario.tools if isinstance(each, Mapping)}
    executed = [each for each in trial.tool_executions if each.message is not None]
    asked = [each for each in executed if each.decision is not None and each.decision.by != "rule"]
    return {
        # Not by pydantic: a Ctrl-C that comes while its serializers call a function of Python is lost there.
        "name": scenario.name,
        "checks": [place_of(each) if callable(each) else each for each in scenario.checks],
        "limits": scenario.limits,
        "says": [turn.prompt for turn in trial.turns],
        "state": inputs[0].state if inputs and scenario.state is None else scenario.state,
        "tools": [scripts.get(name) or _script(tool, executed) for name, tool in offered.items()],
        "approve": _fixed(scenario.approve, ((each.name, _decision(each)) for each in asked)),
        "answer": _fixed(scenario.answer, (("*", _answer(each.entry)) for each in trial.answered)),
    }


def _script(tool: Tool, executed: Iterable[ToolExecution]) -> dict[str, Any]:
    """Return the script of a tool that was executed."""
    own = [each for each in executed if each.name == tool.name]
    needs_approval = any(each.decision is not None and each.decision.by != "rule" for each in own)
    results = [_result(each) for each in own if each.status != "denied"]
    return {
        "name": tool.name,
        "description": tool.description,
        # `true` is a schema, too, and takes anything.
        "parameters": (is_object(tool.parameters) and tool.parameters) or {"type": "object"},
        "results": results or [_UNUSED],
        "unchecked": True,
        **({"approval": "always"} if needs_approval else {}),
    }


def _result(execution: ToolExecution) -> Any:
    message = execution.message
    assert message is not None
    return message.content if message.error is None else {"error": message.error}


def _decision(execution: ToolExecution) -> Any:
    decision, message = execution.decision, execution.message
    assert decision is not None
    assert message is not None
    if decision.verdict == "denied":
        return {"deny": message.error or str(message.content)}
    return {"edit": dict(decision.arguments or {})} if decision.verdict == "changed" else "allow"


def _answer(entry: Any) -> Any:
    return "cancel" if entry.status == "cancelled" else {"value": entry.payload}


def _fixed(policy: Any, given: Iterable[tuple[str, Any]]) -> Any:
    """Return a policy that JSON can write: the policy itself, or the decisions that were made, in their order."""
    if policy is not None and not callable(policy):
        return policy
    decisions: dict[str, list[Any]] = {}
    for name, decision in given:
        decisions.setdefault(name, []).append(decision)
    return decisions or None
