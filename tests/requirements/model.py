"""The record of one requirement."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Requirement:
    """One promise of this client, with the place it comes from."""

    id: str
    """The rule's id, such as "LIFE-1"."""
    sentence: str
    """What the client does about the rule."""
    source: str
    """The specification pages it rests on, or "design" where the pages leave it open."""
    untested: str | None = None
    """Why no test names it: the rule binds nobody here. None where at least one test must."""
