"""Diagnoses as files: a page of HTML that stands by itself, and JUnit's XML for continuous integration."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from agui_client._rendering import junit
from agui_client._rendering.junit import Problem, TestCase, TestSuite
from agui_client.doctor._diagnosis import MARKS, effort_of, finding_lines

if TYPE_CHECKING:
    from agui_client._core.protocol.rules import Severity
    from agui_client.doctor._diagnosis import Diagnosis, Finding, ProbeResult

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { overflow-wrap: anywhere; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
article { border-left: .3rem solid gray; margin: 1rem 0; padding: .1rem 1rem; }
.error { border-color: #c62828; } .warning { border-color: #ef8f00; } .note { border-color: #1976d2; }
pre { overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; padding: .5rem; background: #8882; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .2rem .6rem; vertical-align: top; }
tr { border-bottom: 1px solid #8884; } th, td:first-child, td:nth-child(4) { white-space: nowrap; }
td:nth-child(2) { overflow-wrap: normal; min-width: 9rem; }
"""


def as_html(diagnosis: Diagnosis) -> str:
    """Write a diagnosis as a page of HTML that needs no other file."""
    findings = "".join(map(_article, diagnosis.findings)) or "<p>None.</p>"
    profile = "".join(
        _row("td", MARKS[each.verdict], each.name, each.detail or each.verdict) for each in diagnosis.profile
    )
    probes = "".join(
        _row(
            "td",
            each.name,
            each.title,
            each.outcome + (f": {each.detail}" if each.detail else ""),
            f"{each.seconds:.1f} s",
        )
        for each in diagnosis.probes
    )
    about = f"{diagnosis.headline}. {effort_of(diagnosis)}, {diagnosis.client}."
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Diagnosis of {escape(diagnosis.url)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>Diagnosis of {escape(diagnosis.url)}</h1><p>{escape(about)}</p>"
        f"<h2>Findings</h2>{findings}"
        f"<h2>Profile</h2><table>{profile}</table>"
        f"<h2>Probes</h2><table>{_row('th', 'probe', 'question', 'result', 'time')}{probes}</table></body></html>\n"
    )


def as_junit(diagnosis: Diagnosis, *, fail_on: Severity = "warning") -> str:
    """Write a diagnosis as JUnit's XML: a test case for each probe, and a failed one for each finding.

    Args:
        fail_on: The severity from which on a finding is a failure; others are in the suite's output.
    """
    cases = [
        TestCase("agui.doctor", f"{probe.name}: {probe.title}", probe.seconds, _problem_of(probe, diagnosis))
        for probe in diagnosis.probes
    ]
    for finding in diagnosis.at_least(fail_on):
        failure = Problem("failure", finding.problem, "\n".join(finding_lines(finding)), finding.rule)
        place = f"agui.doctor.{finding.probe}"
        cases.append(TestCase(place, f"{finding.rule}: {finding.problem}", 0.0, failure))
    about = {"url": diagnosis.url, "client": diagnosis.client, "headline": diagnosis.headline}
    return junit.as_junit([TestSuite("agui doctor", cases, about, str(diagnosis))])


def _problem_of(probe: ProbeResult, diagnosis: Diagnosis) -> Problem | None:
    """Return why a probe has no result; None if it has one."""
    if not diagnosis.is_reachable and probe.requests:
        return Problem("error", probe.detail)
    return Problem("skipped", probe.detail) if probe.outcome == "skipped" else None


def _article(finding: Finding) -> str:
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    places = f"<p>Also: {escape(', '.join(finding.places))}</p>" if finding.places else ""
    return (
        f'<article class="{finding.severity}"><h3>{escape(finding.rule)} · {finding.severity}</h3>'
        f"<p>{escape(finding.problem)}{times}</p>{places}<p><strong>Fix:</strong> {escape(finding.fix)}</p>"
        f"<details><summary>Sent and received (probe {escape(finding.probe)})</summary>"
        f"<pre>{escape(finding.evidence.sent)}</pre><pre>{escape(finding.evidence.received)}</pre></details></article>"
    )


def _row(kind: str, *cells: str) -> str:
    return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"
