"""The output of `agui evaluate` when its conversations are over: table, reports, gate and reproductions."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agui_client._cli.inspecting import refuse_replacing
from agui_client._core.ground.files import replace_private
from agui_client.errors import AGUIError
from agui_client.terminal._complaints import complain
from agui_client.terminal._lines import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agui_client._core.ground.prices import Prices
    from agui_client.evaluation import Evaluation, Outcome
    from agui_client.evaluation._evaluation import Plan
    from agui_client.recording import Recording


@dataclass(frozen=True)
class Verdict:
    """The finding of the gate about an evaluation."""

    passed: bool
    """Whether it is open."""
    said: list[str]
    """The lines for people."""
    report: dict[str, Any]
    """The member of a report in JSON."""


class Gate:
    """Whether enough conversations pass, and whether an agent is worse than it was.

    Args:
        at_least: The share of conversations that must pass; without it, all of them, or those of the baseline.
        baseline: The journal of an earlier evaluation.
        plan: The conversations.

    Raises:
        UsageError: The baseline has none of these conversations.
    """

    def __init__(self, at_least: float | None, baseline: str | None, plan: Plan) -> None:
        from agui_client.evaluation._gate import read_baseline

        self._at_least = at_least
        self._before = None if baseline is None else read_baseline(baseline, plan)

    def verdict(self, evaluation: Evaluation) -> Verdict:
        """Judge an evaluation."""
        from agui_client.evaluation._gate import below, worse

        at_least, before = self._at_least, self._before
        changes = [] if before is None else worse(evaluation, before)
        share = 1.0 if at_least is None and before is None else at_least
        low = [] if share is None else below(evaluation, share)
        passed = not low and not any(each.is_certain for each in changes)
        said = [*(low if at_least is not None else []), *(["against the baseline:"] if before is not None else [])]
        said += [f"  {each}" for each in changes] or (["  nothing passes less often"] if before is not None else [])
        report = {"gate": {"passed": passed, "below": low, "worse": [str(each) for each in changes]}}
        return Verdict(passed, said, report)


@dataclass
class Reports:
    """The table on stdout, and the files."""

    junit: str | None
    """The file for a CI system; None for none."""
    as_json: str | None
    """The file for programs."""
    html: str | None
    """The page."""
    prices: Prices | None
    """The prices of tokens by the names of models; None for no money."""
    _recordings: dict[tuple[str, str], Recording] = field(default_factory=dict[tuple[str, str], "Recording"])

    def check_files(self, *read: str | None) -> None:
        """Refuse files that cannot be written, before anything is sent.

        Args:
            read: The files that the command reads.

        Raises:
            click.UsageError: A file cannot be written, or the command reads it.
        """
        files = {"--junit": self.junit, "--json": self.as_json, "--html": self.html}
        written: list[Path] = []
        for option, path in ((option, Path(each)) for option, each in files.items() if each is not None):
            refuse_replacing(path, *read, option=option)
            if path.resolve() in written:
                raise click.UsageError(f"{option} {path} would replace another report; give each a file of its own")
            written.append(path.resolve())
            if path.is_dir() or not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
                raise click.UsageError(f"{path} cannot be written; name a file in a folder that exists")

    def look(self, outcome: Outcome, recording: Recording) -> None:
        """Keep a recording for the page."""
        self._recordings[outcome.agent, outcome.name] = recording

    def show(self, evaluation: Evaluation) -> None:
        """Print the table."""
        from agui_client.evaluation._outcomes import text_of

        click.echo("\n".join(printable(line) for line in text_of(evaluation, self.prices).splitlines()))

    def write(self, evaluation: Evaluation, verdict: Verdict) -> None:
        """Print the table and what the gate says, and write the files."""
        from agui_client.evaluation._junit import write_junit
        from agui_client.evaluation._reports import html_report, json_report

        self.show(evaluation)
        for sentence in verdict.said:
            click.echo(printable(sentence))
        if self.junit is not None:
            write_junit(evaluation, self.junit)
        if self.as_json is not None:
            replace_private(Path(self.as_json), json_report(evaluation, self.prices, verdict.report))
        if self.html is not None:
            replace_private(Path(self.html), html_report(evaluation, self._recordings, self.prices))


def finish_reproductions(
    evaluation: Evaluation, agents: Mapping[str, Any], judge: str | None, *, is_shrinking: bool
) -> None:
    """Make the reproductions of this start short, or replay them, and name those that do not fail again.

    Args:
        agents: The agents by name.
        judge: The agent that judges.
        is_shrinking: Whether reproductions are made short.
    """
    from agui_client.evaluation import shrink
    from agui_client.evaluation._reproductions import without_replay

    for outcome in evaluation.failures:
        if outcome.reproduction is None or outcome.from_journal:
            continue
        try:
            if gone := without_replay(outcome):
                complain(
                    f"{outcome.reproduction}: does not replay {', '.join(gone)}: time and secrets are not recorded"
                )
            elif is_shrinking:
                # Of two agents, the other one shows which prompt the failure needs.
                other = next((agent for name, agent in agents.items() if name != outcome.agent), None)
                shrink(outcome, agents[outcome.agent], reference=other, judge=judge).save(outcome.reproduction)
        except (AGUIError, OSError) as error:
            complain(f"{outcome.reproduction} stays as it is: {error}")
