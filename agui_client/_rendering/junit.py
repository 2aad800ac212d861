"""Results as JUnit's XML, which systems for continuous integration read and store."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

_NOT_XML = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a test case did not pass, or was not run."""

    kind: Literal["failure", "error", "skipped"]
    message: str
    text: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class TestCase:
    """A test case, with its duration in seconds."""

    __test__ = False  # pytest would take it for a test

    place: str
    name: str
    seconds: float
    problem: Problem | None = None
    output: str = ""


@dataclass(frozen=True, slots=True)
class TestSuite:
    """Test cases that belong together."""

    __test__ = False

    name: str
    cases: Sequence[TestCase]
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    output: str = ""


def as_junit(suites: Sequence[TestSuite]) -> str:
    """Return suites as the text of a JUnit file; characters that XML cannot have are replaced."""
    root = Element("testsuites")
    for suite in suites:
        kinds = [each.problem.kind for each in suite.cases if each.problem is not None]
        counts = {"tests": len(suite.cases), "failures": kinds.count("failure"), "errors": kinds.count("error")}
        counts["skipped"] = kinds.count("skipped")
        seconds = f"{sum(each.seconds for each in suite.cases):.3f}"
        element = _added(root, "testsuite", name=suite.name, **{key: str(count) for key, count in counts.items()})
        element.set("time", seconds)
        if suite.properties:
            properties = SubElement(element, "properties")
            for name, value in suite.properties.items():
                _added(properties, "property", name=name, value=value)
        for case in suite.cases:
            _add_case(element, case)
        if suite.output:
            _added(element, "system-out", suite.output)
    ElementTree.indent(root)
    # A declaration of the library's names the encoding of the locale, and files are written in UTF-8.
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _add_case(suite: Element, case: TestCase) -> None:
    element = _added(suite, "testcase", classname=case.place, name=case.name, time=f"{case.seconds:.3f}")
    if (problem := case.problem) is not None:
        named = {"type": problem.type} if problem.type else {}
        _added(element, problem.kind, problem.text, message=problem.message, **named)
    if case.output:
        _added(element, "system-out", case.output)


def _added(parent: Element, tag: str, text: str = "", **attributes: str) -> Element:
    element = SubElement(parent, tag, {name: _xml(value) for name, value in attributes.items()})
    element.text = _xml(text) or None
    return element


def _xml(text: str) -> str:
    """Return a text without the characters that XML cannot have."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
