"""What the client holds and answers for: TOOL, SNAP, STATE, ACT, INT."""

from __future__ import annotations

from requirements.model import Requirement

CONVERSATION = (
    Requirement(
        "TOOL-1",
        "No tool runs before its call's TOOL_CALL_END.",
        "events/tool-calls",
    ),
    Requirement(
        "TOOL-2",
        "Arguments that are not JSON break no stream; they are kept as text for the side that executes the call.",
        "events/tool-calls, events/lifecycle",
    ),
    Requirement(
        "TOOL-3",
        "A call is attached to the assistant message it names.",
        "events/tool-calls, events/subagents",
    ),
    Requirement(
        "TOOL-4",
        "Reopening a closed call without a result appends to its arguments, and begins them anew if they were whole; "
        "a call that starts when the one of its id has a result is another call, unless it names the same message "
        "and has the same name and arguments.",
        "events/tool-calls",
    ),
    Requirement(
        "TOOL-5",
        "TOOL_CALL_RESULT makes a tool message of its own and leaves the call closed, known or not.",
        "events/tool-calls",
    ),
    Requirement(
        "TOOL-6",
        "A result's content, text or parts, keeps its shape in the message and in the next input.",
        "events/tool-calls",
    ),
    Requirement(
        "TOOL-7",
        "Where only text can be stored, the text parts are joined in order and the loss of the others is warned about.",
        "events/tool-calls",
    ),
    Requirement(
        "TOOL-8",
        "A run that leaves calls to the application ends as a success that lists them as pending.",
        "events/tool-calls",
    ),
    Requirement(
        "TOOL-9",
        "Without a list from the agent, pending calls are those the run started and nobody answered.",
        "events/tool-calls",
    ),
    Requirement(
        "TOOL-10",
        "Answers to pending calls go out as tool messages, a failure with its error; missing ones are warned about.",
        "events/tool-calls",
    ),
    Requirement(
        "TOOL-11",
        "A call to a tool nobody advertised is no violation: the agent's own, or answered with an error if it waits.",
        "events/tool-calls",
    ),
    Requirement(
        "SNAP-1",
        "A snapshot replaces the present value, without merging.",
        "basic/patterns/snapshots, events/state",
    ),
    Requirement(
        "SNAP-2",
        "A delta's RFC 6902 operations apply in order to the current value, all or none.",
        "basic/patterns/snapshots",
    ),
    Requirement(
        "SNAP-3",
        "A malformed patch ends the run.",
        "basic/patterns/snapshots",
    ),
    Requirement(
        "SNAP-4",
        "An operation with an unknown op is dropped with a warning and the rest of its patch applied.",
        "basic/patterns/snapshots",
    ),
    Requirement(
        "SNAP-5",
        "A well-formed patch that fails leaves the value as it was, with a warning that says what failed.",
        "basic/patterns/snapshots",
    ),
    Requirement(
        "SNAP-6",
        "The next snapshot is adopted whatever was skipped before it.",
        "basic/patterns/snapshots",
    ),
    Requirement(
        "STATE-1",
        "A run starts from the state it sent, or from {}, and later runs of the stream continue from there.",
        "events/state, basic/run-input, events/lifecycle",
    ),
    Requirement(
        "STATE-2",
        "State may be any JSON: null, 0, the empty string and lists are applied as they are.",
        "events/state",
    ),
    Requirement(
        "STATE-3",
        "A subagent's state events change the one state of the run.",
        "events/subagents",
    ),
    Requirement(
        "STATE-4",
        "The next input carries the current state; a null state is left out.",
        "events/state, basic/index",
    ),
    Requirement(
        "STATE-5",
        "A messages snapshot replaces known messages in place and appends new ones; results go behind known calls.",
        "events/state",
    ),
    Requirement(
        "STATE-6",
        "Messages missing from a snapshot are dropped, activity and reasoning messages excepted.",
        "events/state",
    ),
    Requirement(
        "STATE-7",
        "A snapshot with any activity message is the full set of them, and likewise for reasoning messages.",
        "events/state",
    ),
    Requirement(
        "STATE-8",
        "A snapshot replaces each message whole, owner and encrypted value included.",
        "events/state, events/reasoning",
    ),
    Requirement(
        "ACT-1",
        "Any activity type is accepted.",
        "events/activity",
    ),
    Requirement(
        "ACT-2",
        "An activity snapshot with a new id makes an activity message where it arrived.",
        "events/activity",
    ),
    Requirement(
        "ACT-3",
        "An activity snapshot on a known id replaces content, type and owner, and merges metadata.",
        "events/activity, basic/metadata",
    ),
    Requirement(
        "ACT-4",
        "An activity snapshot with replace false leaves a known activity's content, type and owner alone.",
        "events/activity",
    ),
    Requirement(
        "ACT-5",
        "An activity delta patches the content and sets the type.",
        "events/activity",
    ),
    Requirement(
        "ACT-6",
        "An activity delta for a message that is missing or no activity is skipped with a warning.",
        "events/activity",
    ),
    Requirement(
        "ACT-7",
        "An activity patch that fails, or would leave no object, keeps the content; its metadata merges all the same.",
        "events/activity",
    ),
    Requirement(
        "INT-1",
        "An interrupted run returns with its interrupts, and resuming is a new run on the same thread.",
        "basic/patterns/interrupt-resume, basic/patterns/index",
    ),
    Requirement(
        "INT-2",
        "The ids of a run's interrupts are checked to be distinct.",
        "basic/patterns/interrupt-resume",
    ),
    Requirement(
        "INT-3",
        "A run that leaves a pending interrupt unanswered is refused before anything is sent.",
        "basic/patterns/interrupt-resume",
    ),
    Requirement(
        "INT-4",
        "An answer to anything but an interrupt of the latest interrupted run is refused before anything is sent.",
        "basic/patterns/interrupt-resume",
    ),
    Requirement(
        "INT-5",
        "An expired interrupt cannot be resolved, only cancelled.",
        "basic/patterns/interrupt-resume",
    ),
    Requirement(
        "INT-6",
        "expiresAt is read as an ISO 8601 date, now or earlier being expired; what is no date never expires.",
        "basic/patterns/interrupt-resume",
    ),
    Requirement(
        "INT-7",
        "An answer's payload may be any JSON and is left out when null; interrupts reach the caller as they came.",
        "basic/patterns/interrupt-resume",
    ),
    Requirement(
        "INT-8",
        "A resumed run may end in the same interrupt again, or be refused, like any other run.",
        "basic/patterns/interrupt-resume",
    ),
)
