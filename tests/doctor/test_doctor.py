"""The doctor: the right rule for each fault of a server, and none for what servers may do."""

from __future__ import annotations

from functools import partial
from typing import Any
from xml.etree import ElementTree

import anyio
import pytest

from agui_client import HttpAgent, UsageError
from agui_client.asgi import agent_app
from agui_client.demo import demo_agent
from agui_client.doctor import Diagnosis, as_html, as_junit, diagnose
from agui_client.doctor._examination import Examination, Setup
from agui_client.store import Store
from agui_client.testing import agui_app
from doctor.spoiled_server import FAULTS, HABITS, LATE, Events, Request, Server, asking
from support.stores import FOR_ALL

HOSTILE = "\x1b[31m\x00\u202e</pre><script>alert(1)</script><b>]]>&\r\n"
RULES = {
    "wrong_content_type": "SSE-3",
    "no_run_started": "LIFE-1",
    "two_run_started": "LIFE-2",
    "events_after_the_end": "LIFE-3",
    "text_without_start": "STREAM-1",
    "delta_of_an_unknown_id": "STREAM-1",
    "unclosed_tool_call": "LIFE-5",
    "empty_delta": "DOC-6",
    "nulls": "PROC-17",
    "wrong_thread_id": "LIFE-12",
    "wrong_run_id": "LIFE-12",
    "ids_that_come_again": "LIFE-15",
    "no_json": "PROC-12",
    "no_utf_8": "PROC-12",
    "no_object": "PROC-12",
    "malformed_patch": "SNAP-3",
    "patch_that_fits_nothing": "SNAP-5",
    "collected_response": "DOC-2",
    "collected_by_gzip": "DOC-2",
    "content_length": "DOC-2",
    "unterminated_last_frame": "SSE-12",
    "frames_without_blank_lines": "SSE-4",
    "arguments_that_are_no_json": "TOOL-2",
    "state_lost_over_an_interrupt": "STATE-1",
    "cut_stream": "TRUNC-1",
    "cut_frame": "TRUNC-1",
    "server_error_page": "SSE-8",
    "redirect_to_login": "SSE-3",
    "state_that_does_not_come_back": "STATE-1",
    "state_refused": "STATE-1",
    "tool_result_ignored": "TOOL-10",
    "tool_result_refused": "TOOL-10",
    "tools_refused": "DOC-10",
    "tool_result_invented": "TOOL-8",
    "resume_ignored": "INT-1",
    "resume_refused": "INT-1",
    "interrupts_with_one_id": "INT-2",
    "second_run_refused": "INPUT-1",
    "newer_client_refused": "VER-9",
    "unknown_member_refused": "VER-9",
    "run_error_without_code": "DOC-4",
    "every_run_fails": "DOC-1",
    "goes_on_after_disconnect": "DOC-5",
    "silent_without_comments": "DOC-3",
    "unknown_event_type": "PROC-7",
    "unknown_property": "PROC-8",
    "crlf": "SSE-7",
    "timestamp_as_text": "PROC-6",
    "timestamp_in_seconds": "DOC-9",
    "response_that_breaks_off": "SSE-11",
    "version_without_minor": "VER-2",
    "malformed_input_breaks_it": "DOC-7",
    "chunk_without_id": "CHUNK-2",
    "step_that_was_not_started": "LIFE-16",
    "retired_thinking": "VER-10",
    "reasoning_without_message": "REASON-2",
    "subagent_never_ends": "SUB-7",
    "endless_stream": "DOC-8",
}
PROMPTS = {"interrupt": "ask", "error": "fail"}
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


PROBES = {
    "ids_that_come_again": ["again"],
    "arguments_that_are_no_json": ["tools"],
    "state_lost_over_an_interrupt": ["interrupt"],
    "unclosed_tool_call": ["tools"],
    "state_that_does_not_come_back": ["again"],
    "state_refused": ["again"],
    "tool_result_ignored": ["tools"],
    "tool_result_refused": ["tools"],
    "tools_refused": ["tools"],
    "tool_result_invented": ["tools"],
    "resume_ignored": ["interrupt"],
    "resume_refused": ["interrupt"],
    "interrupts_with_one_id": ["interrupt"],
    "newer_client_refused": ["newer"],
    "unknown_member_refused": ["newer"],
    "run_error_without_code": ["error"],
    "goes_on_after_disconnect": ["leave"],
    "malformed_input_breaks_it": ["malformed"],
    "collected_response": ["newer"],
    "collected_by_gzip": ["newer"],
}
"""The probes besides "hello" that show a fault; some more are made to see that these do not blame anything else."""


async def examined(server: Server, **options: Any) -> Diagnosis:
    given: dict[str, Any] = {"prompts": PROMPTS, "state": {"city": "Oslo"}, "slow": 60.0, "pause": 0.01}
    return await Examination(server.agent(), Setup(**{**given, **options})).run()


def test_every_fault_has_its_rule() -> None:
    assert list(FAULTS) == list(RULES)


@pytest.mark.parametrize("fault", RULES)
async def test_each_fault_is_found_as_the_rule_that_it_breaks_and_no_other(fault: str) -> None:
    limits = {"silence": LATE / 2} if fault == "silent_without_comments" else {}
    if fault.startswith("collected"):
        limits = {"slow": LATE / 2}
    everything = fault in ("server_error_page", "every_run_fails", "second_run_refused")
    only = [] if everything else ["hello", *PROBES.get(fault, [])]
    diagnosis = await examined(Server(fault), only=only, **limits)
    assert {finding.rule for finding in diagnosis.findings} == {RULES[fault]}, str(diagnosis)
    finding = diagnosis.findings[0]
    assert finding.evidence.sent.startswith("POST http://server.example/agent\n{")
    assert finding.evidence.received
    assert finding.fix


@pytest.mark.parametrize("habit", HABITS)
async def test_what_the_protocol_allows_is_no_finding(habit: str) -> None:
    diagnosis = await examined(Server(habit), state=None, only=["hello", "again", "tools"])
    assert diagnosis.findings == [], str(diagnosis)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_good_server_passes_all_probes_and_has_a_profile(backend: str) -> None:
    diagnosis = anyio.run(partial(examined, Server()), backend=backend)
    assert (diagnosis.headline, diagnosis.requests) == ("no findings", 18)
    assert {probe.outcome for probe in diagnosis.probes} == {"passed"}
    assert {ability.name: ability.verdict for ability in diagnosis.profile} == {
        "plain runs": "yes",
        "declares a protocol version": "yes",
        "HTTP": "yes",
        "token usage": "no",
        "state by snapshot": "yes",
        "keeps a state that it is sent": "yes",
        "second run of a thread": "yes",
        "clients of newer minor versions": "yes",
        "tools of the client": "yes",
        "parallel tool calls": "yes",
        "thread after a run that was left": "yes",
        "run after it was left": "unknown",
        "interrupts": "yes",
        "keeps the state over an interrupt": "yes",
        "answers to interrupts": "yes",
        "ignores stray answers": "yes",
        "continues without answers": "yes",
        "insists on all answers": "unknown",
        "reports errors as RUN_ERROR": "yes",
        "refuses malformed inputs": "yes",
        "streams": "unknown",
        "keep-alive comments": "unknown",
    }


def ability(diagnosis: Diagnosis, name: str) -> tuple[str, str] | None:
    found = [(each.verdict, each.detail) for each in diagnosis.profile if each.name == name]
    return found[0] if found else None


async def test_the_tool_that_is_offered_has_a_name_that_no_server_has() -> None:
    names: list[str] = []
    server = Server()
    server.refuse = lambda request: names.extend(each["name"] for each in request["tools"])
    for _ in range(2):
        await examined(server, only=["tools"], prompts={"tools": "Call {tool}."})
    assert len(set(names)) == 2
    assert [name.rpartition("_")[0] for name in names] == ["forecast"] * 4


async def test_a_tool_that_is_refused_by_its_name_is_offered_under_another() -> None:
    diagnosis = await examined(Server("tools_are_named_with_letters_only"), state=None, only=["tools"])
    assert (diagnosis.findings, diagnosis.requests) == ([], 3)
    verdict, detail = ability(diagnosis, "any name of a tool") or ("", "")
    assert (verdict, detail.endswith("was not: the server responded with 422")) == ("no", True)
    assert ability(diagnosis, "tools of the client") == ("yes", "1 called; the result is in the reply")


@pytest.mark.parametrize(
    ("answered", "verdict", "detail"),
    [
        (asking("a", "b"), "yes", "1 of 2 answers were missing; the same questions came again"),
        (asking("c"), "yes", "1 of 2 answers were missing; further questions came"),
        (None, "no", "1 of 2 answers were missing; the run continued without them"),
    ],
    ids=["asks again", "asks something else", "goes on"],
)
async def test_a_server_that_gets_one_of_two_answers_is_described(answered: Any, verdict: str, detail: str) -> None:
    def change(events: Events, request: Request) -> Events:
        resume: list[Any] = request.get("resume") or []
        if not resume and request["messages"][-1].get("content") != "ask":
            return events
        outcome = asking("a", "b") if not resume else answered if len(resume) == 1 else None
        return [events[0], events[-1] | ({"outcome": outcome} if outcome else {})]

    server = Server()
    server.change = change
    diagnosis = await examined(server, only=["interrupt"])
    assert (diagnosis.findings, ability(diagnosis, "insists on all answers")) == ([], (verdict, detail))


async def test_a_server_that_refuses_one_of_two_answers_insists_on_all() -> None:
    server = Server()
    server.change = lambda events, request: (
        [events[0], events[-1] | {"outcome": asking("a", "b")}] if "outcome" in events[-1] else events
    )
    server.refuse = lambda request: 400 if len(request.get("resume") or []) == 1 else None
    diagnosis = await examined(server, only=["interrupt"])
    assert diagnosis.findings == []
    assert ability(diagnosis, "insists on all answers") == (
        "yes",
        "1 of 2 answers were missing; the server responded with 400",
    )


async def test_a_run_that_goes_on_without_its_caller_is_seen_by_connecting() -> None:
    app = agent_app(demo_agent(pace=0.02), store=Store(), **FOR_ALL)
    agent = HttpAgent("http://demo.example/", app=app, connect_url="http://demo.example/connect")
    diagnosis = await diagnose(agent, only=["leave"])
    assert diagnosis.findings == []
    assert ability(diagnosis, "connects to a thread") == ("yes", "")
    verdict, detail = ability(diagnosis, "run after it was left") or ("", "")
    assert (verdict, detail.endswith("came back; it continued")) == ("yes", True)


async def test_a_server_that_does_not_connect_is_only_described() -> None:
    app = agent_app(demo_agent(pace=0))
    agent = HttpAgent("http://demo.example/", app=app, connect_url="http://demo.example/connect")
    diagnosis = await diagnose(agent, only=["leave"])
    assert (diagnosis.findings, ability(diagnosis, "connects to a thread")) == (
        [],
        ("no", "the server responded with 405"),
    )


async def test_the_demo_agent_is_healthy() -> None:
    agent = HttpAgent("http://demo.example/", app=agui_app(demo_agent(pace=0)))
    diagnosis = await diagnose(agent, prompts={"interrupt": "book"})
    assert diagnosis.findings == [], str(diagnosis)
    assert (agent.messages, agent.is_running) == ([], False)


async def test_a_name_that_reads_like_advice_is_not_cut() -> None:
    server = Server()
    finished = {"type": "STEP_FINISHED", "stepName": "load; raise limits, event 7"}
    server.change = lambda events, request: [events[0], finished, *events[1:]]
    [finding] = (await examined(server, only=["hello"])).findings
    assert finding.problem.endswith("'load; raise limits, event 7' of the parent agent that was not started")
    assert "event 1: data: " in finding.evidence.received


async def test_nothing_secret_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    def echo(events: Events, request: Request) -> Events:
        said = {
            "type": "SAID",
            "said": "Bearer sesame-open-please, pass-word, key-in-query",
            "encryptedValue": "cipher",
        }
        return [events[0], said, *events[1:]]

    server = Server()
    server.change = echo
    url = "http://user:pass-word@server.example/agent?key=key-in-query"
    agent = HttpAgent(url, headers={"Authorization": "Bearer sesame-open-please"}, app=server)
    diagnosis = await diagnose(agent, only=["hello"])
    assert [finding.rule for finding in diagnosis.findings] == ["PROC-7"]
    for text in (str(diagnosis), diagnosis.model_dump_json(), as_html(diagnosis), as_junit(diagnosis), caplog.text):
        for secret in ("sesame", "pass-word", "key-in-query", "cipher"):
            assert secret not in text


@pytest.mark.parametrize(
    ("options", "secret"),
    [
        ({"headers": {"Authorization": f"Bearer {'sesame' * 300}"}}, "sesame" * 300),
        ({"headers": {"Cookie": "theme=dark; session=sesame-open"}}, "sesame-open"),
        ({"url": "http://server.example/agent?key=sesame%2Fopen"}, "sesame%2Fopen"),
        ({"url": "http://user:sesame%2Fopen@server.example/agent"}, "sesame%2Fopen"),
    ],
)
async def test_a_secret_is_removed_as_a_whole_wherever_a_server_repeats_it(
    options: dict[str, Any], secret: str
) -> None:
    server = Server()
    server.change = lambda events, request: [events[0], {"type": "SAID", "said": [secret] * 3}, *events[1:]]
    given: dict[str, Any] = {"url": "http://server.example/agent", **options}
    diagnosis = await diagnose(HttpAgent(**given, app=server), only=["hello"])
    assert [finding.rule for finding in diagnosis.findings] == ["PROC-7"]
    assert "sesame" not in diagnosis.model_dump_json()


async def test_a_secret_that_was_cut_off_in_an_error_is_removed() -> None:
    server = Server()
    server.change = lambda events, request: [events[0] | {"threadId": f"{'p' * 40}{'sesame' * 10}"}, *events[1:]]
    agent = HttpAgent("http://server.example/agent", headers={"X-Api-Key": "sesame" * 10}, app=server)
    diagnosis = await diagnose(agent, only=["hello"])
    assert "LIFE-12" in {finding.rule for finding in diagnosis.findings}
    assert "sesame" not in diagnosis.model_dump_json()


@pytest.mark.parametrize("fault", ["crlf", "unterminated_last_frame", "no_json", "cut_frame", "collected_response"])
async def test_an_encrypted_value_is_shown_in_no_form(fault: str) -> None:
    server = Server(fault)
    secret = {
        "type": "REASONING_ENCRYPTED_VALUE",
        "subtype": "message",
        "entityId": "x",
        "encryptedValue": "cipher" * 9,
    }
    server.change = lambda events, request: [
        events[0],
        secret,
        *events[1:-1],
        events[-1] | {"encryptedValue": "cipher" * 9},
    ]
    diagnosis = await examined(server, only=["hello", "newer"], slow=LATE / 2)
    assert diagnosis.findings
    assert "cipher" not in diagnosis.model_dump_json()


async def test_the_address_of_a_redirect_is_shown_without_what_may_be_secret() -> None:
    diagnosis = await examined(Server("redirect_to_login"))
    assert "\nlocation: http://server.example/login\n" in diagnosis.findings[0].evidence.received
    assert "pass-word" not in diagnosis.model_dump_json()


async def test_what_a_hostile_server_writes_is_only_text_in_every_report() -> None:
    server = Server()
    server.change = lambda events, request: [
        events[0],
        {"type": f"X{HOSTILE}"},
        {"type": "RUN_ERROR", "message": HOSTILE},
    ]
    diagnosis = await examined(server)
    assert {finding.rule for finding in diagnosis.findings} == {"PROC-7", "DOC-1", "DOC-4"}
    assert "\x1b" not in str(diagnosis)
    assert "\u202e" not in str(diagnosis)
    page = as_html(diagnosis)
    assert "<script" not in page
    assert "<b>" not in page
    suite = ElementTree.fromstring(as_junit(diagnosis))
    assert [case.get("classname") for case in suite.iter("testcase") if case.find("failure") is not None] == [
        "agui.doctor.hello",
        "agui.doctor.hello",
    ]


async def test_an_ability_that_was_served_with_a_fault_says_so() -> None:
    server = Server()
    stray = {"type": "TEXT_MESSAGE_END", "messageId": "nobody's"}
    server.change = lambda events, request: [events[0], stray, events[-1]]
    diagnosis = await examined(server)
    (second,) = [ability for ability in diagnosis.profile if ability.name == "second run of a thread"]
    assert (second.verdict, second.detail.partition(" event")[0]) == ("yes", "served, but")


async def test_nothing_answers() -> None:
    diagnosis = await diagnose("http://127.0.0.1:1/")
    assert (diagnosis.is_reachable, diagnosis.requests, diagnosis.findings) == (False, 1, [])
    assert "nothing listens there" in diagnosis.probes[0].detail
    report = str(diagnosis)
    assert " (1 request, " in report
    assert report.count("no run was possible") == 1
    assert "  again, newer, tools, parallel, leave, interrupt, error, malformed: no run was possible" in report
    suite = ElementTree.fromstring(as_junit(diagnosis)).find("testsuite")
    assert suite is not None
    assert [suite.get(name) for name in ("errors", "failures")] == ["1", "0"]
    assert len(suite.findall("testcase/error")) == 1


@pytest.mark.parametrize(
    ("status", "advice"), [(401, "give credentials with a header"), (404, "is this the address that takes runs?")]
)
async def test_a_doctor_at_the_wrong_door_finds_nothing(status: int, advice: str) -> None:
    server = Server()
    server.status = status
    diagnosis = await examined(server)
    assert (diagnosis.is_reachable, diagnosis.requests, diagnosis.findings) == (False, 1, [])
    assert diagnosis.probes[0].detail == f"the server responded with {status}; {advice}"


async def test_a_server_that_wants_fewer_requests_is_left_in_peace() -> None:
    server = Server()
    server.refuse = lambda request: 429 if len(server.runs) > 2 else None
    diagnosis = await examined(server)
    assert (diagnosis.findings, diagnosis.requests) == ([], 4)
    assert diagnosis.probes[-1].detail == "the server responds with 429 by now: it wants fewer requests"


async def test_a_server_that_fails_for_good_is_not_blamed_for_what_a_probe_asked() -> None:
    server = Server()
    server.refuse = lambda request: 500 if len(server.runs) > 2 else None
    diagnosis = await examined(server)
    assert [(each.rule, each.probe) for each in diagnosis.findings] == [("DOC-1", "newer")]


async def test_a_server_that_never_answers_is_given_up() -> None:
    server = Server()
    server.before = 100.0
    diagnosis = await examined(server, timeout=0.5)
    assert [(finding.rule, finding.problem) for finding in diagnosis.findings] == [
        ("DOC-1", "a plain run is not served: no event arrived within 0.5 s; no keep-alive comment had come")
    ]
    assert diagnosis.requests == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"only": ["heart"]}, "there is no probe 'heart'; there are again, "),
        ({"prompts": {"heart": "beat"}}, "there is no prompt 'heart'; there are "),
        ({"prompts": {"hello": " "}}, "the prompt 'hello' is not text"),
        ({"timeout": 0}, "timeout= is a number of seconds above zero, not 0"),
    ],
)
async def test_wrong_options_are_refused_before_anything_is_sent(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        await diagnose("http://127.0.0.1:1/", **options)


async def test_frames_without_blank_lines_have_their_own_remedy() -> None:
    server = Server("frames_without_blank_lines")
    diagnosis = await examined(server, only=["hello"])
    assert [each.rule for each in diagnosis.findings] == ["SSE-4"]
    assert "end each frame with a blank line" in diagnosis.findings[0].fix


async def test_a_state_that_is_lost_over_an_interrupt_is_a_finding() -> None:
    server = Server("state_lost_over_an_interrupt")
    diagnosis = await examined(server, only=["interrupt"], state={"cart": ["tea"]}, prompts={"interrupt": "ask"})
    assert [(each.rule, each.probe) for each in diagnosis.findings] == [("STATE-1", "interrupt")]
    assert "loses members of the state: cart" in diagnosis.findings[0].problem
    good = await examined(Server(), only=["interrupt"], state={"cart": ["tea"]}, prompts={"interrupt": "ask"})
    assert good.findings == []


async def test_a_given_tool_is_offered_in_place_of_one_with_a_random_name() -> None:
    offered: list[Any] = []
    server = Server()
    refuse = server.refuse

    def note(request: Request) -> int | None:
        offered.extend(each["name"] for each in request.get("tools") or ())
        return refuse(request)

    server.refuse = note
    await examined(server, only=["tools"], tool={"name": "search_flights", "parameters": {"type": "object"}})
    assert set(offered) == {"search_flights"}
    with pytest.raises(UsageError, match="the tool is a JSON object with a name"):
        await examined(server, tool={"parameters": {}})
