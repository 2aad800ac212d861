"""The frameworks, and why a story cannot hold on one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias


@dataclass(frozen=True)
class NotOffered:
    """The framework's adapter has nothing of the kind; the story is not told."""

    why: str


@dataclass(frozen=True)
class ServerBug:
    """The story fails by the server's fault; it is told nevertheless, to notice when it is mended."""

    proof: str
    """The bytes it sends, and the rule they break."""
    error: str
    """A part of the error that the story ends with; any other failure is not this bug."""


Verdict: TypeAlias = NotOffered | ServerBug
_ASKING = ("asked", "approved", "approved_elsewhere", "denied", "approved_edited", "cancelled", "abandoned")
_REFUSED_SILENTLY = ServerBug(
    "when an application goes away in mid-answer, the runtime goes on with the run, and until that ends by itself (its "
    'own POST .../stop/THREAD, answered "stopped":true, changes nothing) refuses each next run of the thread by "200 '
    'OK, content-type: text/event-stream" and no byte, neither RUN_STARTED nor RUN_ERROR (TRUNC-1); "Thread already '
    'running" is only in its log',
    "the stream ended without any event",
)


def _no_connect(routes: str) -> NotOffered:
    return NotOffered(f"nothing sends a thread again; all its routes: {routes}")


_STARTED_TWICE = ServerBug(
    "TOOL_CALL_START of both calls comes a second time while both are open: START a, ARGS a, START b, ARGS b, START a, "
    "START b, END a, END b, END a, END b (TOOL-1)",
    "which is already open",
)
_STATE_BETWEEN = ServerBug(
    "with state_schema, a run resumed by an approval gives the model [assistant with the call, system message with the "
    "state, result]: a provider answers 400, and the run ends with RUN_ERROR, code RefusedError",
    "(code RefusedError)",
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
    stories: Sequence[str] = ()
    """The stories to tell; all if empty. A second way to serve a framework repeats only what differs."""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict[str, "Verdict"])
    """Why stories do not hold, by their names."""


_ALL = [
    Framework(
        "pydantic-ai",
        "pydantic_ai",
        verdicts={"reconnect": _no_connect("AGUIAdapter.dispatch_request, one run (pydantic_ai/ui/ag_ui/_adapter.py)")},
    ),
    Framework(
        "langgraph",
        "langgraph",
        verdicts={
            "reconnect": _no_connect("POST PATH, GET PATH/health (ag_ui_langgraph/endpoint.py)"),
            "regenerate": ServerBug(
                "posted [u1, a1, u2] of a thread [u1, a1, u2, a2], the adapter gives the model [u1, a1, u2, a2], and "
                "its MESSAGES_SNAPSHOT has a2 and a second answer behind it: the checkpoint is not cut back",
                "['user', 'assistant', 'user', 'assistant', 'assistant']",
            ),
        },
    ),
    Framework(
        "langgraph-older",
        "langgraph",
        path="/older",
        stories=("hello", *_ASKING),
    ),
    Framework("langchain-review", "langgraph", path="/review", stories=("hello", *_ASKING)),
    Framework(
        "langchain-review-older",
        "langgraph",
        path="/review-older",
        stories=("hello", *_ASKING),
    ),
    Framework("langchain-review-each", "langgraph", path="/review-each", stories=("hello", *_ASKING)),
    Framework(
        "strands",
        "strands",
        verdicts={"reconnect": _no_connect("POST PATH, GET PING (ag_ui_strands/endpoint.py)")},
    ),
    Framework(
        "microsoft",
        "microsoft",
        verdicts={
            "reconnect": NotOffered("not without snapshot_store; see microsoft-kept"),
            **dict.fromkeys(
                ("state_up", "state_edited"),
                NotOffered("without state_schema the state is not told to the model; see microsoft-state"),
            ),
            "two_tools": _STARTED_TWICE,
        },
    ),
    Framework(
        "microsoft-state",
        "microsoft",
        path="/state",
        stories=("hello", "state_up", "state_down", "state_edited", *_ASKING),
        verdicts=dict.fromkeys(("approved", "approved_elsewhere", "approved_edited"), _STATE_BETWEEN),
    ),
    # With a snapshot_store, the run address answers a request without messages by the thread. The query tells this
    # address from the agent's own, where connecting is refused; an agent that has messages would start a run.
    Framework(
        "microsoft-kept",
        "microsoft",
        path="/kept",
        connect="/kept?again",
        stories=("hello", "turns", "server_tool", "tool_here", "reconnect", *_ASKING),
    ),
    Framework(
        "agno",
        "agno",
        path="/agui",
        verdicts={
            "reconnect": _no_connect("POST /agui, GET /status (agno/os/interfaces/agui/router.py)"),
            "regenerate": ServerBug(
                "posted [u1, a1, u2] of a thread [u1, a1, u2, a2], the adapter gives the model [u1, a1, u2, a2, u2]: "
                "it takes the last message alone, and the history from its db",
                "'Answer 2.' is not in 'Answer 3. '",
            ),
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
            "reconnect": _no_connect("POST /run (llama_index/protocols/ag_ui/router.py)"),
            "reasoning": NotOffered("the adapter has no events for reasoning"),
            **dict.fromkeys(_ASKING, NotOffered("the adapter has no interrupts and no approval")),
        },
    ),
    Framework(
        "adk",
        "adk",
        verdicts={
            "reconnect": _no_connect(
                "POST PATH, GET capabilities, POST /agents/state, which is JSON and no event (ag_ui_adk/endpoint.py)"
            ),
            "regenerate": ServerBug(
                "posted [u1, a1, u2] of a thread [u1, a1, u2, a2], the adapter answers RUN_STARTED, RUN_FINISHED and "
                "nothing between: it has processed u2 before, and does not ask the model",
                "'Answer 2.' is not in ''",
            ),
        },
    ),
    Framework("ag2", "ag2", verdicts={"reconnect": _no_connect("POST, GET of capabilities (ag2/ag_ui/asgi.py)")}),
    Framework(
        "mastra",
        "mastra",
        verdicts={"reconnect": _no_connect("MastraAgent has run() and no connect() (@ag-ui/mastra); see copilotkit")},
    ),
    Framework(
        "copilotkit",
        "mastra",
        path="/copilotkit/agent/talk/run",
        connect="/copilotkit/agent/talk/connect",
        verdicts={"abort": _REFUSED_SILENTLY},
    ),
    Framework(
        "crewai",
        "crewai",
        verdicts={
            "reconnect": _no_connect("POST PATH (ag_ui_crewai/endpoint.py)"),
            **dict.fromkeys(_ASKING, NotOffered("a flow asks by @human_feedback; see crewai-review")),
        },
    ),
    Framework("crewai-review", "crewai", path="/review", stories=("hello", *_ASKING)),
]
_BY_NAME = {each.name: each for each in _ALL}
_OF_PAGES = ("hello", "turns", "server_tool", "tool_here", "two_tools", "denial", "exception", *_ASKING)


def _program(name: str, verdicts: Mapping[str, Verdict] | None = None) -> Framework:
    """The program of docs/frameworks.md for a framework."""
    shown = _BY_NAME[name]
    known = {key: verdict for key, verdict in shown.verdicts.items() if key in _OF_PAGES}
    page = f"/page{shown.path}"
    return replace(shown, name=f"{name}-page", path=page, stories=_OF_PAGES, verdicts={**known, **(verdicts or {})})


_PROGRAMS = [
    *map(_program, ("pydantic-ai", "agno", "adk", "strands", "llamaindex", "microsoft", "ag2")),
    _program(
        "langgraph",
        dict.fromkeys(
            ("tool_here", "two_tools", "denial"),
            NotOffered("tools of the application need a middleware, which the server of `langgraph` has"),
        ),
    ),
    _program("crewai", {"server_tool": NotOffered("a flow executes its tools by code of its own; see crewai")}),
]
FRAMEWORKS = {framework.name: framework for framework in (*_ALL, *_PROGRAMS)}
