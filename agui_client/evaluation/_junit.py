"""The outcomes of an evaluation as a JUnit file without secrets, which CI systems read and store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, ElementTree, SubElement

from agui_client._core.ground.secrets import hidden_text
from agui_client.evaluation._trials import lines_of

if TYPE_CHECKING:
    from agui_client.evaluation._outcomes import Evaluation, Outcome

_NOT_XML = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Write a test suite for each agent, with a test case for each conversation.

    Args:
        evaluation: The evaluation.
        path: The file.
    """
    suites = Element("testsuites")
    for agent in evaluation.agents:
        own = [each for each in evaluation.outcomes if each.agent == agent]
        broken = sum(each.trial is None for each in own)
        failed = sum(not each.passed for each in own) - broken
        suite = SubElement(suites, "testsuite", name=agent or "agent", tests=str(len(own)))
        suite.attrib |= {"failures": str(failed), "errors": str(broken)}
        for outcome in own:
            _add_case(suite, outcome)
    with Path(path).open("wb") as file:
        ElementTree(suites).write(file, encoding="utf-8", xml_declaration=True)


def _add_case(suite: Element, outcome: Outcome) -> None:
    seconds = 0.0 if outcome.trial is None else outcome.trial.seconds
    case = SubElement(suite, "testcase", classname=_xml(outcome.scenario.name), name=_xml(outcome.name))
    case.set("time", f"{seconds:.3f}")
    if not outcome.passed:
        kind = "failure" if outcome.error is None else "error"
        names = [*outcome.failed] if outcome.error is None else [outcome.error.type]
        SubElement(case, kind, message=_xml("; ".join(map(hidden_text, names)))).text = _shown(
            "\n  ", [outcome.title, *outcome.reasons]
        )
    if outcome.trial is not None and not outcome.passed:
        SubElement(case, "system-out").text = _shown("\n", lines_of(outcome.trial))


def _shown(between: str, parts: Iterable[str]) -> str:
    """Join parts of an outcome without their secrets: where one is hidden as a whole, the others stay."""
    return _xml(between.join(map(hidden_text, parts)))


def _xml(text: str) -> str:
    """Return a text without the characters that XML cannot have."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
