"""Rules: the severity of each, and the remedy of a server that breaks it.

The doctor and checks report by this table; errors and warnings carry the id of a rule, the position of the event and
their own `fix` as fields, so that no report is made of their sentences. What each rule says is in docs/protocol.md; the
rules "DOC-1" and so on are the doctor's own.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "note"]
"""The weight of a broken rule: clients reject the run; something is lost, or fails sometimes; or it could be better."""


class Rule(NamedTuple):
    """A rule that a server may break."""

    severity: Severity
    """The weight, where no client rejected the run."""
    remedy: str
    """The way to fix the server."""


_IN_ORDER = (
    "send START, then CONTENT or ARGS, then END for each item, all with the same id; END every item before RUN_FINISHED"
)
_FAMILIES = {
    "ACT": "send ACTIVITY_SNAPSHOT with a message id of its own before any ACTIVITY_DELTA for it",
    "CAP": "describe capabilities as the protocol's schema has them",
    "CHUNK": "give the first chunk of each item its id (a tool call its name, too), and never change them",
    "INT": "give each interrupt an id of its own, and end the run with them in the outcome of RUN_FINISHED",
    "LIFE": "send RUN_STARTED first, exactly one RUN_FINISHED or RUN_ERROR last, and nothing behind it",
    "PROC": "send events as the classes of ag_ui.core write them: model_dump_json(by_alias=True, exclude_none=True)",
    "REASON": "open a reasoning span and each message in it before anything else about them, and end both",
    "SNAP": "send RFC 6902 operations that fit the state as the client has it",
    "SSE": "respond with 200, Content-Type: text/event-stream, and one JSON event in each frame `data: {...}\\n\\n`",
    "STATE": "take the state of the input as the one that the run begins with, and send what the run made of it",
    "STREAM": _IN_ORDER,
    "SUB": "announce a subagent once, tag its events with its id, and end it before RUN_FINISHED",
    "TOOL": "send no results of tools that the client offers: end the run, and take the results from the next input",
    "TRUNC": "end every stream with RUN_FINISHED or RUN_ERROR, also when the agent raises an exception",
    "VER": "send the shapes of AG-UI 1.0, and serve inputs of newer minor versions",
}
"""The remedies of a family of rules."""
_RULES: dict[str, Rule] = {
    "DOC-1": Rule("error", "look into the server's log: a plain prompt has to lead to a run that finishes"),
    "DOC-2": Rule(
        "warning",
        "send each event when it is made: no Content-Length, no compression, X-Accel-Buffering: no for proxies",
    ),
    "DOC-3": Rule("note", "send a comment (a line `: keep-alive` and a blank line) every 15 seconds without an event"),
    "DOC-4": Rule("note", "give RUN_ERROR a `code` that programs can act on; `message` is for people"),
    "DOC-5": Rule("warning", "stop the run when the connection is closed, or let the next run of the thread take over"),
    "DOC-6": Rule("note", "leave out deltas without text: they carry nothing, and clients before 1.0 refuse them"),
    "DOC-7": Rule("note", "refuse an input that is not a RunAgentInput with 400 or 422, not with a server error"),
    "DOC-8": Rule("error", "send less: a short run that brings megabytes is given up"),
    "DOC-9": Rule("note", "send timestamps as milliseconds since the epoch, as is the convention"),
    "DOC-10": Rule("warning", "serve inputs with `tools`; an agent need not call them"),
    "INPUT-1": Rule("error", "serve every run with the messages of its input; a thread has any number of runs"),
    "INT-1": Rule("error", "look up `resume` of the input: each entry answers the interrupt that it names"),
    "INT-2": Rule("error", "give each interrupt of a run an id of its own: one answer would cover several questions"),
    "LIFE-1": Rule("error", "send RUN_STARTED before anything else (or RUN_ERROR, if no run can start)"),
    "LIFE-3": Rule("error", "send nothing after RUN_FINISHED or RUN_ERROR, and each of them once"),
    "LIFE-5": Rule("error", "end every message, tool call, reasoning and step before RUN_FINISHED"),
    "LIFE-12": Rule("error", "copy threadId and runId of the input into RUN_STARTED and RUN_FINISHED"),
    "LIFE-16": Rule("error", "start each step once, and finish it once, under the tag that it was started with"),
    "LIFE-15": Rule(
        "warning",
        "make a new id for each run, message and tool call: with one that is taken, the old one is continued",
    ),
    "PROC-7": Rule(
        "warning",
        "send only event types of the protocol; wrap others into a CUSTOM event with `name` and `value`",
    ),
    "PROC-8": Rule("note", "leave the property out, or put it into `metadata`; check its spelling (camelCase)"),
    "PROC-12": Rule(
        "error", "put exactly one JSON object with a `type` into each frame, as UTF-8 without NaN or Infinity"
    ),
    "PROC-17": Rule(
        "error",
        "leave optional fields out where they have no value: model_dump_json(by_alias=True, exclude_none=True)",
    ),
    "SNAP-5": Rule(
        "warning", "base each patch on the state that the client has: of the input, and of the events so far"
    ),
    "SSE-3": Rule("error", "respond to the POST of a run with 200 and Content-Type: text/event-stream"),
    "SSE-4": Rule("error", "end each frame with a blank line, also that between two events: one event is one frame"),
    "SSE-7": Rule("error", r"end lines with \n: clients may split frames at \n\n only, as the TypeScript client does"),
    "SSE-8": Rule(
        "error", "accept a conforming RunAgentInput; refuse with 4xx what you cannot serve, and say why in JSON"
    ),
    "SSE-11": Rule(
        "warning",
        "let the response end behind the last event: an exception that is raised there breaks it off",
    ),
    "SSE-12": Rule("warning", "end the last frame with a blank line, too: readers of SSE drop a frame that has none"),
    "STATE-1": Rule("warning", _FAMILIES["STATE"]),
    "TOOL-2": Rule("note", "send the arguments of a call as one JSON object, in pieces cut anywhere"),
    "TOOL-10": Rule("error", "continue with the results in the tool messages of the input, found by toolCallId"),
    "VER-2": Rule("warning", 'declare protocolVersion as MAJOR.MINOR, such as "1.0"'),
    "VER-9": Rule("error", "serve newer minor versions, and ignore members of the input that you do not know"),
    "VER-10": Rule("note", "send the current events: REASONING_* in place of THINKING_*"),
    "VER-11": Rule("note", "send the current shapes: content is lost when these are translated"),
}
"""Rules that differ from those of their family, which are warnings."""


def rule_of(rule: str) -> Rule:
    """Return the severity and the remedy of a rule by its id."""
    return _RULES.get(rule) or Rule("warning", _FAMILIES.get(rule.partition("-")[0], _FAMILIES["PROC"]))
