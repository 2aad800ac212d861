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


_STARTED_TWICE = ServerBug(
    "TOOL_CALL_START of both calls comes a second time while both are open: START a, ARGS a, START b, ARGS b, START a, "
    "START b, END a, END b, END a, END b (TOOL-1)"
)
_STATE_BETWEEN = ServerBug(
    "with state_schema, a resumed run gives the model [assistant with the call, user message with the state, result]: "
    "a provider answers 400, and the run ends with RUN_ERROR, code RefusedError"
)


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
    Framework("strands", "strands", verdicts={"reconnect": _NO_CONNECT}),
    Framework(
        "microsoft",
        "microsoft",
        verdicts={
            "reconnect": _NO_CONNECT,
            "state_up": NotOffered("without state_schema the state is not told to the model; see microsoft-state"),
            "two_tools": _STARTED_TWICE,
        },
    ),
    Framework(
        "microsoft-state",
        "microsoft",
        path="/state",
        stories=("hello", "state_up", "state_down", *_ASKING),
        verdicts=dict.fromkeys(("approved", "approved_elsewhere", "denied", "approved_edited"), _STATE_BETWEEN),
    ),
    Framework(
        "agno",
        "agno",
        path="/agui",
        verdicts={
            "reconnect": _NO_CONNECT,
            "reasoning": NotOffered(
                "the adapter has events for agno's own reasoning steps, none for a model's thoughts"
            ),
            **dict.fromkeys(
                _ASKING, NotOffered("it asks by a tool call, which tool_results={id: '{\"accepted\": true}'} answers")
            ),
        },
    ),
    Framework(
        "llamaindex",
        "llamaindex",
        path="/run",
        verdicts={
            "reconnect": _NO_CONNECT,
            "reasoning": NotOffered("the adapter has no events for reasoning"),
            **dict.fromkeys(_ASKING, NotOffered("the adapter has no interrupts and no approval")),
        },
    ),
    Framework("adk", "adk", verdicts={"reconnect": _NO_CONNECT}),
    Framework("ag2", "ag2", verdicts={"reconnect": _NO_CONNECT}),
    # Its other stories are not told yet: a flow that asks by @human_feedback needs a program of its own.
    Framework("crewai", "crewai", stories=("hello", "turns", "server_tool", "tool_here")),
]
FRAMEWORKS = {framework.name: framework for framework in _ALL}
