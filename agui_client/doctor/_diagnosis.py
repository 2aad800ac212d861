"""The diagnosis of a server: findings, the profile of what the server can do, and the probes that were made.

To change

- a report of the doctor: this module has the record, `doctor/_files.py` writes it
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from agui_client._core.protocol.rules import Severity
from agui_client._rendering.story import counted

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""The severities, the worst first."""
Verdict: TypeAlias = Literal["yes", "no", "unknown"]
"""The verdict whether a server can do something; "unknown" if no run showed it."""
Outcome: TypeAlias = Literal["passed", "findings", "skipped"]
"""The result of a probe."""


class _Part(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, use_attribute_docstrings=True)


class Evidence(_Part):
    """The request and the response that show a finding, shortened, with secrets removed and controls escaped."""

    sent: str
    """The request: its line, and its JSON body."""
    received: str
    """The part of the response that shows the finding, with its status."""


class Finding(_Part):
    """A rule that the server breaks, or something that it could do better."""

    rule: str
    """The id of the protocol's rule, such as "LIFE-3"; "DOC-1" and so on are rules of this doctor's own."""
    severity: Severity
    """The weight."""
    problem: str
    """The fault, in a sentence."""
    fix: str
    """The way to fix it."""
    probe: str
    """The probe that showed it first."""
    evidence: Evidence
    """The bytes that show it."""
    count: int = 1
    """The number of times that it was seen, in all probes."""
    places: list[str] = []
    """Further places, such as "RUN_FINISHED /result"; at most twenty."""


class Ability(_Part):
    """A line of the profile: something that the server can or cannot do, none of which is a fault."""

    name: str
    """The ability, such as "parallel tool calls"."""
    verdict: Verdict
    """Whether the server has it."""
    detail: str = ""
    """The observation behind it."""


class ProbeResult(_Part):
    """A probe, and its result."""

    name: str
    """The name, as `only=` and `skip=` take it."""
    title: str
    """The question that the probe asks."""
    outcome: Outcome
    """The result."""
    detail: str = ""
    """The reason for which it was skipped; empty otherwise."""
    requests: int = 0
    """The number of requests that were posted."""
    seconds: float = 0.0
    """The time that it took."""


class Diagnosis(_Part):
    """The result of an examination."""

    url: str
    """The address, without user, password and query."""
    client: str
    """The version of this package, and of the protocol that it speaks."""
    is_reachable: bool
    """Whether a server responded at the address, and did not send the client away: 401, 403, 404, 405 or 407."""
    is_complete: bool
    """Whether the examination came to its end, rather than being stopped."""
    requests: int
    """The number of requests that were posted."""
    seconds: float
    """The time that the examination took."""
    findings: list[Finding]
    """The findings, the worst first."""
    profile: list[Ability]
    """The abilities."""
    probes: list[ProbeResult]
    """The probes, in their order."""

    def at_least(self, severity: Severity) -> list[Finding]:
        """Return the findings of this severity, and of worse ones."""
        bad = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return [finding for finding in self.findings if finding.severity in bad]

    @property
    def headline(self) -> str:
        """The result in one line."""
        if not self.is_reachable:
            return "no server takes runs of this client at this address"
        counts = [(sum(each.severity == kind for each in self.findings), kind) for kind in SEVERITIES]
        named = [counted(count, kind) for count, kind in counts if count]
        stopped = "" if self.is_complete else "; the examination was stopped before its end"
        return (", ".join(named) or "no findings") + stopped

    def __str__(self) -> str:
        lines = [f"{self.url}: {self.headline} ({effort_of(self)})"]
        for finding in self.findings:
            lines += ["", *finding_lines(finding)]
        if self.profile:
            width = max(len(ability.name) for ability in self.profile) + 2
            lines += ["", "Profile"]
            lines += [f"  {MARKS[each.verdict]} {each.name:<{width}}{each.detail}".rstrip() for each in self.profile]
        reasons: dict[str, list[str]] = {}
        for probe in self.probes:
            if probe.outcome == "skipped":
                reasons.setdefault(probe.detail, []).append(probe.name)
        left_out = [f"  {', '.join(names)}: {reason}" for reason, names in reasons.items()]
        return "\n".join([*lines, *(["", "Left out", *left_out] if left_out else [])])


MARKS: dict[Verdict, str] = {"yes": "+", "no": "-", "unknown": "?"}
"""The sign of each verdict in a text."""


def effort_of(diagnosis: Diagnosis) -> str:
    """Write the number of requests and the seconds that an examination took."""
    return f"{counted(diagnosis.requests, 'request')}, {diagnosis.seconds:.1f} s"


def finding_lines(finding: Finding) -> list[str]:
    """Write a finding for people, in indented lines."""
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    lines = [f"{finding.severity.upper()} {finding.rule}: {finding.problem}{times}", f"  fix: {finding.fix}"]
    lines += [f"  also: {', '.join(finding.places)}"] if finding.places else []
    lines += [f"  > {line}" for line in finding.evidence.sent.splitlines()]
    lines += [f"  < {line}" for line in finding.evidence.received.splitlines()]
    return [*lines, f"  probe: {finding.probe}"]
