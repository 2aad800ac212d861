"""The examination of a server: probes one after the other, and the diagnosis at any moment."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ag_ui.core import PROTOCOL_VERSION, TextMessageContentEvent

from agui_client._core.agent.http_agent import HttpAgent
from agui_client._core.protocol.rules import rule_of
from agui_client._core.protocol.schema import is_a
from agui_client._core.tools.tool_limits import ToolLimits
from agui_client._core.transport.timeouts import Timeouts, check_seconds
from agui_client._version import __version__
from agui_client.doctor._diagnosis import SEVERITIES, Ability, Diagnosis, Finding, ProbeResult, Verdict
from agui_client.doctor._evidence import evidence, frame_text, shown
from agui_client.doctor._exchanges import Capture, ProbeAgent, ProbeExchange
from agui_client.doctor._judging import Seen, Symptom, is_burst, symptoms
from agui_client.doctor._probes import PROBES, PROMPTS, Probe, SkippedError, tool_names
from agui_client.errors import AGUIError, ConnectError, ConnectTimeoutError, UsageError

if TYPE_CHECKING:
    from agui_client._core.protocol.prompts import Prompt
    from agui_client._core.run.options import RunOptions
    from agui_client._core.run.result import RunResult
    from agui_client._core.tools.toolset import ToolSource

Progress: TypeAlias = Callable[[ProbeResult | str], object]
"""Called with the name of a probe before it begins, and with its result."""
_MOST_PLACES = 20
_IS_EXAMINING: ContextVar[bool] = ContextVar("agui_client.doctor", default=False)


def _is_for_people(record: logging.LogRecord) -> bool:
    """Return whether a record is to be logged: warnings about an examined server are its findings."""
    return not _IS_EXAMINING.get()


for _name in ("agui_client", "agui_client.run", "agui_client.call"):
    logging.getLogger(_name).addFilter(_is_for_people)


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of an examination."""

    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """The prompts of probes by name, besides those that are there."""
    state: Any = None
    """A state that the server knows; None if it is not known."""
    tool: Mapping[str, Any] | None = None
    """The tool that is offered: name, description, parameters and result; None for one that tells the weather."""
    only: Collection[str] = ()
    """The probes to make; all if empty."""
    skip: Collection[str] = ()
    """The probes to leave out."""
    timeout: float = 60.0
    """The longest wait for the connection, the first event, and between events, in seconds; a call has twice that."""
    silence: float = 20.0
    """The longest time without a byte that needs no comment, in seconds."""
    slow: float = 0.5
    """The seconds that a run must take before its times show whether its response was collected."""
    pause: float = 1.0
    """The seconds that a server has to notice that a client has left a run."""

    def __post_init__(self) -> None:
        names = {probe.name for probe in PROBES}
        for given in (*self.only, *self.skip):
            if given not in names:
                raise UsageError(f"there is no probe {given!r}; there are {', '.join(sorted(names))}")
        for given, prompt in self.prompts.items():
            if given not in PROMPTS:
                raise UsageError(f"there is no prompt {given!r}; there are {', '.join(sorted(PROMPTS))}")
            if not is_a(prompt, str) or not prompt.strip():
                raise UsageError(f"the prompt {given!r} is not text")
        if self.tool is not None and (not is_a(self.tool, Mapping) or not is_a(self.tool.get("name"), str)):
            raise UsageError("the tool is a JSON object with a name, and maybe description, parameters and result")
        for name in ("timeout", "silence", "slow", "pause"):
            check_seconds(f"{name}=", getattr(self, name))


class Examination:
    """The examination of one server.

    Args:
        agent: The server's address, or an agent with its credentials; its conversation is left alone.
        setup: The settings.
        progress: See `Progress`.

    Raises:
        UsageError: The agent is no `HttpAgent`, or its address cannot be read.
    """

    def __init__(self, agent: HttpAgent | str, setup: Setup | None = None, progress: Progress | None = None) -> None:
        given = HttpAgent(agent) if isinstance(agent, str) else agent
        if not is_a(given, HttpAgent):
            raise UsageError(f"diagnose() takes a URL or an HttpAgent, not a {type(given).__name__}")
        self.setup: Setup = setup or Setup()
        """The settings."""
        self.is_reachable: bool = True
        """Whether the server responds, and takes runs of this client."""
        self.obstacle: str = ""
        """The reason for which no further probe makes sense; empty if there is none."""
        self.tap: Capture = Capture()
        """The exchanges so far."""
        given_tool = self.setup.tool
        names = tool_names() if given_tool is None else iter([str(given_tool["name"])])
        self.tool_name: str = next(names)
        """The name of the tool that is offered."""
        self._tool_names = names
        self._agent, self._progress = given, progress
        self.address: str = self.agent().address
        """The address without the parts that may be secret."""
        self._findings: dict[tuple[str, str], Finding] = {}
        self._first_places: dict[tuple[str, str], str] = {}
        self._abilities: dict[str, Ability] = {}
        self._results: list[ProbeResult] = []
        self._is_complete = False
        self._started_at = perf_counter()
        self._ended_at: float | None = None

    @property
    def chosen(self) -> list[Probe]:
        """The probes to make."""
        setup = self.setup
        return [each for each in PROBES if (not setup.only or each.name in setup.only) and each.name not in setup.skip]

    @property
    def runs(self) -> tuple[int, int]:
        """The number of runs that the probes ask for: usually, and at most."""
        asking = [probe for probe in self.chosen if self._prompt_is_there(probe)]
        connecting = sum(probe.connecting for probe in asking) if self.agent().can_connect else 0
        return sum(probe.runs for probe in asking) + connecting, sum(probe.most for probe in asking) + connecting

    async def run(self) -> Diagnosis:
        """Make all probes; return the diagnosis."""
        token = _IS_EXAMINING.set(True)
        try:
            for probe in self.chosen:
                await self._make(probe)
            self._judge_times()
            self._is_complete = True
        finally:
            self._ended_at = perf_counter()
            _IS_EXAMINING.reset(token)
        return self.diagnosis()

    def diagnosis(self) -> Diagnosis:
        """Return the diagnosis so far."""
        worst_first = sorted(self._findings.values(), key=lambda each: SEVERITIES.index(each.severity))
        return Diagnosis(
            url=self.address,
            client=f"agui-client {__version__}, AG-UI {PROTOCOL_VERSION}",
            is_reachable=self.is_reachable,
            is_complete=self._is_complete,
            requests=len(self.tap.exchanges),
            seconds=round((self._ended_at or perf_counter()) - self._started_at, 3),
            findings=worst_first,
            profile=list(self._abilities.values()),
            probes=list(self._results),
        )

    def prompt(self, name: str) -> str:
        """Return a prompt.

        Raises:
            SkippedError: There is none.
        """
        prompt = self.setup.prompts.get(name) or PROMPTS[name]
        if not prompt:
            raise SkippedError(f"it needs a prompt that makes the server do so: --prompt {name}=TEXT")
        return prompt.replace("{tool}", self.tool_name)

    def rename_tool(self) -> bool:
        """Give the tool that is offered another name; return whether there is one left."""
        before, self.tool_name = self.tool_name, next(self._tool_names, self.tool_name)
        return self.tool_name != before

    def agent(
        self,
        *,
        tools: ToolSource = (),
        state: Any = None,
        changes: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
    ) -> ProbeAgent:
        """Make an agent.

        Args:
            tools: The tools that it offers.
            state: The state that it begins with.
            changes: Members that are put into each input, whatever they are.
            thread_id: The thread; a new one if left out.
        """
        seconds = self.setup.timeout
        timeouts = replace(Timeouts.of(seconds), connect=min(seconds, 10.0), total=2 * seconds)
        return ProbeAgent(
            self._agent,
            self.tap,
            timeouts,
            dict(changes or {}),
            tools=tools,
            initial_state=state,
            tool_limits=ToolLimits(rounds=1, repeats=None),
            thread_id=thread_id,
        )

    async def ask(self, agent: ProbeAgent, prompt: Prompt, **options: Any) -> Seen:
        """Make a call, and judge what it shows.

        Args:
            agent: The agent to ask.
            options: See `RunOptions`.
        """
        given: RunOptions = cast("RunOptions", options)
        return await self._seen(agent.run_agent(prompt, **given))

    async def connect(self, agent: ProbeAgent) -> Seen:
        """Have the server send the agent's thread again, and judge what it shows."""
        return await self._seen(agent.connect_agent())

    async def ask_and_leave(self, agent: ProbeAgent, prompt: str) -> Seen:
        """Make a call, leave it at the first piece of its text, and judge what it shows."""

        async def leave() -> bool:
            """Leave the run at its first piece of text."""
            async with agent.stream(prompt) as run:
                async for event in run:
                    if isinstance(event, TextMessageContentEvent):
                        return True
            return False

        return await self._seen(leave())

    async def post(self, body: bytes) -> Seen:
        """Post any bytes as an input; return what came back, which is not judged as a run."""
        return await self._seen(self.agent().post(body), is_run=False)

    async def _seen(self, call: Awaitable[RunResult | bool | None], *, is_run: bool = True) -> Seen:
        first, failure = len(self.tap.exchanges), None
        result: RunResult | bool | None
        try:
            result = await call
        except AGUIError as error:
            result, failure = cast("RunResult | None", error.partial), error
        run = None if isinstance(result, bool) else result
        seen = Seen(self.tap.exchanges[first:], run, failure, was_left=result is True)
        if isinstance(failure, ConnectError | ConnectTimeoutError) and not failure.may_have_started:
            self.is_reachable = False
            if not any(each.status for each in self.tap.exchanges):
                self.obstacle = "no run was possible"
                raise SkippedError(seen.reason)
        for symptom in symptoms(seen) if is_run else ():
            self.find(symptom)
        return seen

    def find(self, symptom: Symptom) -> None:
        """Note a finding; one that is there already is counted."""
        key = symptom.rule, symptom.kind
        if (known := self._findings.get(key)) is not None:
            self._findings[key] = self._again(known, symptom)
            return
        self._first_places[key] = shown(symptom.place, self.tap.secrets)
        severity, remedy = rule_of(symptom.rule)
        secrets = self.tap.secrets
        self._findings[key] = Finding(
            rule=symptom.rule,
            severity=symptom.severity or ("error" if symptom.is_fatal else severity),
            problem=shown(symptom.problem, secrets, 600),
            fix=remedy,
            probe=symptom.exchange.probe if symptom.exchange is not None else self.tap.probe,
            count=symptom.count,
            evidence=evidence(self.address, symptom.exchange, secrets, event=symptom.event, detail=symptom.detail),
        )

    def _again(self, known: Finding, symptom: Symptom) -> Finding:
        """Return a finding with one more symptom of it."""
        place = shown(symptom.place, self.tap.secrets)
        is_new = place not in (*known.places, self._first_places[symptom.rule, symptom.kind])
        places = [*known.places, place][:_MOST_PLACES] if place and is_new else known.places
        return known.model_copy(update={"count": known.count + symptom.count, "places": places})

    def has_found(self, rule: str) -> bool:
        """Return whether there is a finding of a rule."""
        return any(finding.rule == rule for finding in self._findings.values())

    def ability(self, name: str) -> Ability | None:
        """Return a line of the profile; None if it was not noted."""
        return self._abilities.get(name)

    def note(self, name: str, verdict: bool | None, detail: str = "") -> None:
        """Note a line of the profile; what was seen stands over what was not.

        Args:
            name: The ability.
            verdict: Whether the server has it; None if that is not known.
            detail: What was seen.
        """
        named: Verdict = "unknown" if verdict is None else "yes" if verdict else "no"
        known = self._abilities.get(name)
        if known is None or known.verdict == "unknown" or named == "yes":
            text = shown(detail, self.tap.secrets)
            self._abilities[name] = Ability(name=name, verdict=named, detail=text)

    async def _make(self, probe: Probe) -> None:
        """Make a probe, unless it makes no sense, and note its result."""
        self.tap.probe = probe.name
        if self._progress:
            self._progress(probe.name)
        began, before, found = perf_counter(), len(self.tap.exchanges), self._count()
        detail = self.obstacle
        if not detail:
            try:
                await probe.make(self)
            except SkippedError as skipped:
                detail = shown(str(skipped), self.tap.secrets)
        has_found = self._count() > found
        result = ProbeResult(
            name=probe.name,
            title=probe.title,
            outcome="findings" if has_found else "skipped" if detail else "passed",
            detail=detail,
            requests=len(self.tap.exchanges) - before,
            seconds=round(perf_counter() - began, 3),
        )
        self._results.append(result)
        if self._progress:
            self._progress(result)

    def _count(self) -> int:
        return sum(finding.count for finding in self._findings.values())

    def _prompt_is_there(self, probe: Probe) -> bool:
        return not probe.prompt or bool(self.setup.prompts.get(probe.prompt) or PROMPTS[probe.prompt])

    def _judge_times(self) -> None:
        """Judge whether responses were collected, and how long streams were silent."""
        streams = [each for each in self.tap.exchanges if each.status == 200 and each.frames]
        self._judge_bursts(streams)
        silence = max((each.longest_silence for each in streams), default=0.0)
        quiet = [each for each in streams if each.longest_silence >= self.setup.silence and not each.comments]
        comments = sum(each.comments for each in streams)
        if quiet:
            seconds = quiet[0].longest_silence
            problem = f"the stream was silent for {seconds:.1f} s, without a comment to keep it alive"
            self.find(Symptom("DOC-3", problem, exchange=quiet[0], event=quiet[0].silent_before))
        if streams:
            seen = f"{comments} comments; the longest silence was {silence:.2f} s"
            self.note("keep-alive comments", True if comments else False if quiet else None, seen)

    def _judge_bursts(self, streams: Sequence[ProbeExchange]) -> None:
        judged = [(each, is_burst(each, self.setup.slow)) for each in streams]
        verdicts = [verdict for _, verdict in judged if verdict is not None]
        bursts = [each for each, verdict in judged if verdict]
        if False in verdicts:
            self.note("streams", True, "events arrive while the run is in progress")
        elif len(bursts) > 1:
            burst = bursts[0]
            first, last = burst.frames[0], burst.frames[-1]
            packed = f", packed with {coding}" if (coding := burst.headers.get("content-encoding")) else ""
            gap = last.seconds - first.seconds
            count = f"all {len(burst.frames)} events came within {gap:.3f} s, after {first.seconds:.2f} s of silence"
            times = "\n".join(f"after {each.seconds:.3f} s: data: {frame_text(each)}" for each in (first, last))
            self.find(Symptom("DOC-2", f"{count}{packed}", exchange=burst, detail=times, kind="times"))
            self.note("streams", False, count)
        elif streams:
            self.note("streams", None, f"no run took long enough to show it ({self.setup.slow:g} s)")


async def diagnose(
    agent: HttpAgent | str,
    *,
    prompts: Mapping[str, str] | None = None,
    state: Any = None,
    tool: Mapping[str, Any] | None = None,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    timeout: float = 60.0,
    silence: float = 20.0,
    slow: float = 0.5,
    progress: Progress | None = None,
) -> Diagnosis:
    """Probe a server with a handful of short runs, and say what it can do, and which rules it breaks.

    Args:
        agent: The server's address, or an `HttpAgent` with its credentials; its conversation is left alone.
        prompts: The prompts by name ("hello", "tools", "parallel", "long", "state", "interrupt", "error"). There are
            prompts for language models, but none for "interrupt" and "error", which are left out without one. {tool} in
            a prompt is the name of the tool that is offered.
        state: A state that the server knows. Members of it that the server drops are findings.
        tool: The tool that is offered, for agents that call their own tools only: its name, and maybe description,
            parameters (a JSON Schema) and result. Without it, a tool of a random name tells the weather.
        only: The probes to make; all if empty.
        skip: The probes to leave out.
        timeout: The longest wait for the connection, the first event, and between events, in seconds; a call has twice
            as long.
        silence: The longest time without a byte that needs no keep-alive comment, in seconds.
        slow: The seconds that a run must take before its times show whether its response was collected.
        progress: Called with the name of each probe before it begins, and with its result.

    Raises:
        UsageError: An option has a value that it does not take.
    """
    setup = Setup(
        prompts=prompts or {},
        state=state,
        tool=tool,
        only=only,
        skip=skip,
        timeout=timeout,
        silence=silence,
        slow=slow,
    )
    return await Examination(agent, setup, progress).run()
