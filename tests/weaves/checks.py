"""What must hold of any verdict on any stream."""

from __future__ import annotations

from agui_client._core.protocol.schema import is_array, is_object
from weaves.material import SECRET
from weaves.naive import Naive
from weaves.stages import Verdict, as_json


def findings(verdict: Verdict) -> list[str]:
    """What is wrong with a verdict, in words; nothing, if the client is right."""
    return [*_difference(verdict), *_leaks(verdict)]


def _difference(verdict: Verdict) -> list[str]:
    """What is held other than what was delivered comes to (LIFE-8)."""
    naive = Naive()
    for event in verdict.delivered:
        naive.take(as_json(event))
    held, expected = [verdict.messages, verdict.state], [naive.messages, naive.state]
    return [] if exact(held) == exact(expected) else [f"held is {held}, naively it is {expected}"]


def _leaks(verdict: Verdict) -> list[str]:
    """Errors and warnings that tell what was sealed (REASON-5)."""
    told = [warning.message for warning in verdict.warnings]
    if verdict.error is not None:
        told.append(str(verdict.error))
    return [f"tells a secret: {text}" for text in told if SECRET in text]


def exact(value: object) -> object:
    """A JSON value so that it compares as JSON does: Python takes 1, 1.0 and True for the same."""
    if is_object(value):
        return {name: exact(member) for name, member in value.items()}
    if is_array(value):
        return [exact(item) for item in value]
    return (type(value).__name__, value) if isinstance(value, bool | int | float) else value
