"""An evaluation as JSON for programs, and as one HTML page whose conversations open in the inspector."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from agui_client._core.ground.secrets import hidden_json, hidden_text
from agui_client._rendering.inline_parts import hash_source
from agui_client.evaluation._outcomes import Evaluation, Outcome, headline, measures_of, table_of
from agui_client.inspector._page import page_parts

if TYPE_CHECKING:
    from agui_client._core.ground.prices import Prices
    from agui_client.evaluation._rates import Rate

_SCRIPT = """\
const bytes = text => Uint8Array.from(atob(text), character => character.charCodeAt(0));
const part = id => new TextDecoder().decode(bytes(document.getElementById(id).text));
for (const button of document.querySelectorAll("button")) button.onclick = () => {
  const page = part("before") + document.getElementById(button.value).text + part("after");
  const frame = document.createElement("iframe");
  frame.srcdoc = page;
  frame.title = button.title;
  button.replaceWith(frame);
};
"""
_STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem }
body { color: #1c1c1c; background: #fff }
table { border-collapse: collapse; margin: 1rem 0 }
td, th { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #767676 }
details { margin: .4rem 0 }
pre { white-space: pre-wrap }
.failed { color: #a40000 }
iframe { width: 100%; height: 80vh; border: 1px solid #767676 }
"""


def json_report(evaluation: Evaluation, prices: Prices | None = None, gate: Mapping[str, Any] | None = None) -> bytes:
    """Return an evaluation as JSON, without secrets.

    Args:
        prices: The prices of a million tokens by the names of models.
        gate: What else the command found, such as what became worse.
    """
    report = {
        "passed": evaluation.passed,
        "agents": {
            name: {**_counted(rate), **to_jsonable_python(measures_of(evaluation, name, prices))}
            for name, rate in evaluation.totals.items()
        },
        "scenarios": {
            name: {agent: _counted(rate) for agent, rate in rates.items()} for name, rates in evaluation.rates.items()
        },
        "conversations": [_conversation(each) for each in evaluation.outcomes],
        "faults": evaluation.faults,
        **(gate or {}),
    }
    return json.dumps(hidden_json(report), ensure_ascii=False, indent=1).encode() + b"\n"


def _counted(rate: Rate) -> dict[str, Any]:
    return {"passed": rate.passed, "held": rate.held, "broken": rate.broken, "interval": rate.interval}


def _conversation(outcome: Outcome) -> dict[str, Any]:
    trial = outcome.trial
    return {
        "scenario": outcome.scenario.name,
        "repetition": outcome.repetition,
        "agent": outcome.agent,
        "passed": outcome.passed,
        "checks": {
            name: {"passed": each.passed, "reason": hidden_text(each.reason)} for name, each in outcome.verdicts.items()
        },
        "error": None if outcome.error is None else hidden_text(f"{outcome.error.type}: {outcome.error.message}"),
        "turns": None if trial is None else len(trial.turns),
        "seconds": None if trial is None else trial.seconds,
        "tokens": None if trial is None else trial.tokens,
        "from_journal": outcome.from_journal,
        "reproduction": None if outcome.reproduction is None else str(outcome.reproduction),
    }


def html_report(
    evaluation: Evaluation, recordings: Mapping[tuple[str, str], Any], prices: Prices | None = None
) -> bytes:
    """Return an evaluation as one page that loads nothing.

    Args:
        recordings: The recordings of conversations, by the agents and the names of their outcomes.
        prices: The prices of a million tokens by the names of models.
    """
    parts = {key: page_parts(each, prices=prices) for key, each in recordings.items()}
    before, _, after = next(iter(parts.values()), (b"", b"", b""))
    # The page of a frame is under the rules of this one, so that its style and its script are allowed here, too.
    inside = " ".join(re.findall(r"'sha256-[^']+'|'unsafe-inline'", before[:2000].decode("utf-8", "replace")))
    scripts = f"{hash_source(_SCRIPT.encode())} {inside}"
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {scripts}"
    heads, *rows = table_of(evaluation, prices)
    sections = [_section(each, is_recorded=(each.agent, each.name) in parts) for each in evaluation.outcomes]
    lines = [
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Evaluation</title>',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f"<style>{_STYLE}</style><h1>{escape(headline(evaluation))}</h1><table><tr>",
        *(f"<th>{escape(head)}</th>" for head in heads),
        *(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}" for row in rows),
        "</table>",
        *sections,
    ]
    page = "\n".join(lines).encode()
    for key, (_, data, _) in parts.items():
        page += b'\n<script type="application/json" id="' + _id(*key).encode() + b'">' + data + b"</script>"
    for name, content in (("before", before), ("after", after)):
        page += f'\n<script type="text/plain" id="{name}">{base64.b64encode(content).decode()}</script>'.encode()
    return page + f"\n<script>{_SCRIPT}</script>\n".encode()


def _section(outcome: Outcome, *, is_recorded: bool) -> str:
    title, reasons = escape(outcome.title), "".join(f"<li>{escape(hidden_text(each))}" for each in outcome.reasons)
    said = "" if outcome.trial is None else f"<pre>{escape(hidden_text(outcome.trial.transcript))}</pre>"
    value = _id(outcome.agent, outcome.name)
    button = f'<button value="{value}" title="{title}">Open in the inspector</button>' if is_recorded else ""
    head = f'<summary class="{"passed" if outcome.passed else "failed"}">{title}</summary>'
    return f"<details{'' if outcome.passed else ' open'}>{head}<ul>{reasons}</ul>{said}{button}</details>"


def _id(agent: str, name: str) -> str:
    return f"c{hashlib.sha256(json.dumps([agent, name]).encode()).hexdigest()[:16]}"
