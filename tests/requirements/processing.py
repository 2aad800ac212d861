"""The way of every event, and how a run begins and ends: PROC, LIFE, TRUNC, USAGE."""

from __future__ import annotations

from requirements.model import Requirement

PROCESSING = (
    Requirement(
        "PROC-1",
        "Remote, in-process and replayed runs pass the same stages in one fixed order on their way to the caller.",
        "basic/processing",
    ),
    Requirement(
        "PROC-2",
        "Retired shapes are translated first, and middleware sees every event before anything is removed from it.",
        "basic/processing, architecture",
    ),
    Requirement(
        "PROC-3",
        "Iterators, subscribers, messages and state never show what enforcement removes.",
        "basic/processing, basic/versioning",
    ),
    Requirement(
        "PROC-4",
        "Order and ownership are judged on the expanded events, never on chunks.",
        "basic/processing",
    ),
    Requirement(
        "PROC-5",
        "An unknown event type, property or union member never ends a run.",
        "basic/processing",
    ),
    Requirement(
        "PROC-6",
        "A known field with a value its schema rejects ends the run with an InvalidEventError; nothing is repaired.",
        "basic/processing",
    ),
    Requirement(
        "PROC-7",
        "An event of an unknown type is dropped whole, with a warning that names the type.",
        "basic/processing",
    ),
    Requirement(
        "PROC-8",
        "An unknown property is removed, with a warning that names its path.",
        "basic/processing",
    ),
    Requirement(
        "PROC-9",
        "Removal reaches every depth; the slot decides whether the field, its object or the list element goes.",
        "basic/processing",
    ),
    Requirement(
        "PROC-10",
        "Patch operations, metadata, state and every other open object arrive with all their members and no warning.",
        "basic/processing, basic/metadata, basic/capabilities",
    ),
    Requirement(
        "PROC-11",
        "A value of the wrong JSON kind in a union's place is malformed, not unknown, and ends the run.",
        "events/reasoning",
    ),
    Requirement(
        "PROC-12",
        "The same event gets the same verdict over HTTP and in process; bytes that form no event are a DecodeError.",
        "basic/processing",
    ),
    Requirement(
        "PROC-13",
        "A malformed chunk is rejected as an event of its own, before expansion and without defaults.",
        "basic/processing, basic/patterns/streaming",
    ),
    Requirement(
        "PROC-14",
        "Middleware may hand on chunks or the triads it made of them; both lead to the same messages.",
        "basic/processing",
    ),
    Requirement(
        "PROC-15",
        "All 31 event types of the protocol are accepted.",
        "events/index",
    ),
    Requirement(
        "PROC-16",
        "Events apply in arrival order whatever their timestamps; rawEvent and the spelling of ids decide nothing.",
        "basic/index",
    ),
    Requirement(
        "PROC-17",
        "A null in place of an optional field is malformed; nulls inside open objects and JSON payloads are kept.",
        "basic/index",
    ),
    Requirement(
        "PROC-18",
        "An unknown message role is removed with a warning; a wrong value in a field pinned to one value ends the run.",
        "basic/processing",
    ),
    Requirement(
        "PROC-19",
        "What the official models let pass (unknown keys, nulls, coercion, snake_case) is judged here all the same.",
        "basic/processing",
    ),
    Requirement(
        "LIFE-1",
        "A stream that opens with anything but RUN_STARTED or RUN_ERROR is rejected.",
        "events/lifecycle",
    ),
    Requirement(
        "LIFE-2",
        "A RUN_STARTED inside an open run is rejected.",
        "events/lifecycle",
    ),
    Requirement(
        "LIFE-3",
        "After RUN_FINISHED only a new run or a late RUN_ERROR may follow, after RUN_ERROR only a new run.",
        "events/lifecycle",
    ),
    Requirement(
        "LIFE-4",
        "A RUN_ERROR after RUN_FINISHED makes that run a failed one, whatever its outcome had been.",
        "events/lifecycle, basic/patterns/interrupt-resume",
    ),
    Requirement(
        "LIFE-5",
        "A RUN_FINISHED that leaves a message, call, reasoning span, step or announced subagent open is rejected.",
        "events/lifecycle, events/reasoning, events/text-messages, events/tool-calls, events/subagents",
    ),
    Requirement(
        "LIFE-6",
        "RUN_ERROR closes everything open; the next run starts with clean books over the same messages and state.",
        "events/lifecycle, events/text-messages",
    ),
    Requirement(
        "LIFE-7",
        "A run that reported RUN_ERROR raises RunFailedError and never returns a result.",
        "events/lifecycle",
    ),
    Requirement(
        "LIFE-8",
        "A rejected stream and a reported failure raise unrelated errors, and both keep what was delivered before.",
        "events/lifecycle",
    ),
    Requirement(
        "LIFE-9",
        "A missing or success outcome is success; an unknown one is removed with a warning and reads as success.",
        "events/lifecycle",
    ),
    Requirement(
        "LIFE-10",
        "A cancelled run returns with its own outcome, neither success nor error, and keeps what it delivered.",
        "events/lifecycle",
    ),
    Requirement(
        "LIFE-11",
        "Abandoning a run never produces a RUN_FINISHED; the result says aborted and has no outcome.",
        "events/lifecycle",
    ),
    Requirement(
        "LIFE-12",
        "Thread and run ids are compared with the input's and within each run.",
        "basic/run-input",
    ),
    Requirement(
        "LIFE-13",
        "A stream may replay earlier runs before the requested one; the result is the last run's.",
        "events/lifecycle, basic/run-input",
    ),
    Requirement(
        "LIFE-14",
        "Messages that RUN_STARTED echoes and the conversation lacks are taken over.",
        "basic/run-input, basic/transports/index",
    ),
    Requirement(
        "LIFE-15",
        "Ids minted here are fresh: a run id per run, a message id per message, a thread id per conversation.",
        "basic/index",
    ),
    Requirement(
        "LIFE-16",
        "Starting an open step or finishing one that is not open is rejected, by name and owner.",
        "events/lifecycle",
    ),
    Requirement(
        "TRUNC-1",
        "A stream that ends without a terminal event raises IncompleteRunError, and what arrived stays.",
        "basic/transports/index",
    ),
    Requirement(
        "TRUNC-2",
        "Running again after a truncated run is a new run under a new run id.",
        "basic/transports/index",
    ),
    Requirement(
        "TRUNC-3",
        "A body without events, or with replayed runs only, gives the requested run no outcome; no END is made up.",
        "basic/transports/index",
    ),
    Requirement(
        "USAGE-1",
        "A token count nobody reported stays absent in the sum and is never read as zero.",
        "events/lifecycle",
    ),
    Requirement(
        "USAGE-2",
        "Usage is summed per provider and model; cached and reasoning counts are never added to the totals.",
        "events/lifecycle",
    ),
    Requirement(
        "USAGE-3",
        "A result's usage is what its own run reported, on RUN_FINISHED or on RUN_ERROR.",
        "events/lifecycle, events/subagents",
    ),
)
