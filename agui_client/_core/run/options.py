"""The keywords of the verbs, defined once for all five, and how keywords are checked and listed.

To change

- a new keyword of the verbs: `RunOptions` here, or `ConnectOptions` there if `connect_agent` takes it, too; it is used
  in `composed_input` (`_core/run/turn_input.py`), or in `HttpAgent._post` if it is about the request; `IN_INPUT` or
  `BY_CALL` here names it, or the agents that carry it out name it in `takes`: where none of them does, a call with it
  is refused; `_OF_ONE_RUN` in `batch/_batch.py` if a batch cannot take it; `_STORED_OPTIONS` in `store/_runs/runs.py`,
  with `input_of` in `store/_runs/program_runs.py`, if runs of an agent with a name can store it, which refuse it
  otherwise; the table in docs/start.md. `tests/core/verbs/test_passing_on.py` requires that it reaches the agent, and
  is in that table; `tests/core/agent/test_facts_of_agents.py` that an agent takes it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, SupportsIndex, TypedDict, TypeVar, cast

from agui_client._core.ground.field_docs import field_docs

if TYPE_CHECKING:
    from ag_ui.core import Context

    from agui_client._core.conversation.turns import WhenBusy
    from agui_client._core.tools.interrupts import Resume
    from agui_client._core.tools.toolset import ToolSource
    from agui_client._core.transport.timeouts import Timeouts


class ConnectOptions(TypedDict, total=False):
    """The keywords of `connect_agent`, which asks nothing; every other verb takes them, too."""

    context: Sequence[Context]
    """Further information for the model, besides the conversation."""
    forwarded_props: Any
    """Passed to the server untouched, any JSON value; where a server takes a cursor, often here."""
    headers: Mapping[str, str]
    """Request headers for this call, over the agent's own (HttpAgent)."""
    timeout: float | Timeouts
    """Time-outs for this call, in seconds: instead of the agent's own, or of none for an agent in this process."""
    when_busy: WhenBusy
    """The order of calls while another run of the agent is in progress: this one is refused with a `RunInProgressError`
    ("raise", also if left out), waits for its end ("queue"), or stops it and takes its place ("interrupt")."""


class RunOptions(ConnectOptions, total=False):
    """The keywords of the other verbs."""

    run_id: str
    """The run's id, never used before on this thread; minted if left out."""
    new_run: bool
    """Whether the call begins a run of its own in any case. Left out, the same call again, right after an error with
    `may_have_started`, asks a server that keeps runs for the same run, which it does not run twice."""
    parent_run_id: str
    """The id of the earlier run of the thread that this run continues, for servers that keep branches of a thread."""
    tools: ToolSource
    """The tools offered in this run instead of the agent's `tools`."""
    resume: Resume
    """Answers to the pending interrupts: `{interrupt_id: Resolve(...) or Cancel()}`."""
    tool_results: Mapping[str, Any]
    """Results of pending tool calls by id: text, content parts, any JSON value, a `ToolError`, a `Deny`, or an
    `Approve`, which has the call carried out by its function here before anything is sent."""


IN_INPUT = frozenset({"context", "forwarded_props", "run_id", "parent_run_id", "resume", "tool_results"})
"""Keywords that become part of the run's input, and are refused beside a whole `RunAgentInput`."""
BY_CALL = frozenset({"new_run", "timeout", "tools", "when_busy"})
"""Keywords that a call carries out itself, whatever the agent; an agent takes every other one, or it is refused."""

BY_REQUEST = frozenset({"headers"})
"""Keywords that an HTTP request carries out, which is to say an `HttpAgent`."""

OptionsT = TypeVar("OptionsT", bound=Mapping[str, object])
TargetT = TypeVar("TargetT", bound=Callable[..., Any])


def checked_options(options: OptionsT, kind: type, of: str, maker: Callable[..., object] | None = None) -> OptionsT:
    """Return the keywords that were given a value.

    Args:
        options: The keywords as the caller wrote them; None counts as left out.
        kind: The `TypedDict` that lists them.
        of: The name of the function or class that takes them, to which the error refers.
        maker: The class or function that takes them beside keywords of its own; None for other calls.

    Raises:
        TypeError: A keyword is unknown, as Python raises it for a function.
    """
    known = kind.__annotations__
    if unknown := sorted(options.keys() - known.keys()):
        from difflib import get_close_matches

        near = get_close_matches(unknown[0], known if maker is None else signature(maker).parameters, n=2)
        meant = f"; did you mean {' or '.join(f'{name}=' for name in near)}?" if near else ""
        raise TypeError(f"unknown keyword {unknown[0]}={meant or ';'} help({of}) explains all keywords")
    return cast("OptionsT", {name: value for name, value in options.items() if value is not None})


def lists_keywords(kind: type) -> Callable[[TargetT], TargetT]:
    """Decorate a function or class that takes `**options: Unpack[kind]`, so that its signature and `help()` list them.

    Args:
        kind: The `TypedDict` that lists and explains the keywords.
    """

    def listed(target: TargetT) -> TargetT:
        """Give the target a signature with the keywords in it, and a docstring that explains them."""
        given: Any = target
        function = getattr(given, "__init__") if isinstance(given, type) else given  # noqa: B009 (mypy)
        shown = signature(function)
        named = [each for each in shown.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        added = [
            # As a text, as the function's own annotations are, and not as the ForwardRef that a TypedDict makes of it.
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=None,
                annotation=getattr(annotation, "__forward_arg__", annotation),
            )
            for name, annotation in kind.__annotations__.items()
            if name not in shown.parameters
        ]
        vars(function)["__signature__"] = shown.replace(parameters=[*named, *added])
        if target.__doc__:  # python -OO has none
            target.__doc__ = _Explained(target.__doc__)
            target.__doc__.keywords, target.__doc__.kind = [*kind.__annotations__], kind
        return target

    return listed


class _Explained(str):
    """A docstring whose line about `options` becomes one for each keyword when it is shown.

    The sentences stand below the fields of the `TypedDict`, which are in its source alone: too slow for each import.
    `help()`, IPython and Sphinx expand tabs first.
    """

    keywords: Sequence[str]
    kind: type

    def expandtabs(self, tabsize: SupportsIndex = 8) -> str:
        """Return the docstring with a line for each keyword."""
        return str(self).expandtabs(tabsize)

    def __str__(self) -> str:
        return _OPTIONS_LINE.sub(self._lines, self[:])

    def _lines(self, line: re.Match[str]) -> str:
        import textwrap

        docs, indent = field_docs(self.kind), line["indent"]
        wrapped = (
            textwrap.fill(
                f"{name}: {docs.get(name, '')}".rstrip(), 120, initial_indent=indent, subsequent_indent=f"{indent}    "
            )
            for name in self.keywords
            if f"\n{indent}{name}: " not in self  # it has its own line
        )
        return "".join(f"{each}\n" for each in wrapped)


_OPTIONS_LINE = re.compile(r"^(?P<indent> +)options: .*\n(?:(?P=indent) +.*\n)*", re.MULTILINE)
