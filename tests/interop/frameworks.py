"""The frameworks, and why a story cannot hold on one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agui_client.langgraph import langgraph_interrupts


@dataclass(frozen=True)
class NotOffered:
    """The framework's adapter has nothing of the kind; the story is not told."""

    why: str


@dataclass(frozen=True)
class ServerBug:
    """The story fails by the server's fault; it is told nevertheless, to notice when it is mended."""

    proof: str
    """The bytes it sends, and the rule they break."""


Verdict: TypeAlias = NotOffered | ServerBug
_ASKING = ("asked", "approved", "approved_elsewhere", "denied", "approved_edited", "cancelled", "abandoned")
_NO_CONNECT = NotOffered("the adapter has no route that sends a thread again")


@dataclass(frozen=True)
class Framework:
    """A server of the matrix."""

    name: str
    environment: str
    """The name of its requirements file, and of its program in `servers/`."""
    path: str = "/"
    connect: str | None = None
    """The path that sends a thread again."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """What a user of this server gives `HttpAgent`."""
    stories: Sequence[str] = ()
    """The stories to tell; all if empty. A second way to serve a framework repeats only what differs."""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict[str, "Verdict"])
    """Why stories do not hold, by their names."""


_ALL = [
    Framework("pydantic-ai", "pydantic_ai", verdicts={"reconnect": _NO_CONNECT}),
    Framework("langgraph", "langgraph", verdicts={"reconnect": _NO_CONNECT}),
    Framework(
        "langgraph-older",
        "langgraph",
        path="/older",
        options={"middleware": [langgraph_interrupts]},
        stories=("hello", *_ASKING),
    ),
    Framework("langchain-review", "langgraph", path="/review", stories=("hello", *_ASKING)),
    Framework(
        "langchain-review-older",
        "langgraph",
        path="/review-older",
        options={"middleware": [langgraph_interrupts]},
        stories=("hello", *_ASKING),
    ),
    Framework("langchain-review-each", "langgraph", path="/review-each", stories=("hello", *_ASKING)),
]
FRAMEWORKS = {framework.name: framework for framework in _ALL}
