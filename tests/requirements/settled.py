"""What the specification leaves open and the design settles: SET."""

from __future__ import annotations

from requirements.model import Requirement

SETTLED = (
    Requirement(
        "SET-1",
        'A null in place of an optional field ends the run unless null_fields="drop", which drops it with a warning.',
        "design",
    ),
    Requirement(
        "SET-2",
        "A call with an unknown parent makes that assistant message; one with none, or no assistant's, makes its own.",
        "design",
    ),
    Requirement(
        "SET-3",
        "A tool result stands right after the message that made the call and the results there, else at the end.",
        "design",
    ),
    Requirement(
        "SET-4",
        "An untagged explicit continuation closes the chunk stream of the parent's lane.",
        "design",
    ),
    Requirement(
        "SET-5",
        "A thread or run id that does not match is warned about, and ends the run under strict=True.",
        "design",
    ),
    Requirement(
        "SET-6",
        "Two interrupts with one id reject the stream.",
        "design",
    ),
    Requirement(
        "SET-7",
        "Unknown or duplicate answers raise InterruptsNotCoveredError before anything is sent.",
        "design",
    ),
    Requirement(
        "SET-8",
        "A late RUN_ERROR takes the interrupts of its run with it.",
        "design",
    ),
    Requirement(
        "SET-9",
        "Of two messages with one id in a snapshot the last one counts, in the first one's place, with a warning.",
        "design",
    ),
    Requirement(
        "SET-10",
        "Text streamed into the id of an activity message is skipped with a warning.",
        "design",
    ),
    Requirement(
        "SET-11",
        "The tool calls of a cancelled, failed or truncated run are reported and never executed.",
        "design",
    ),
    Requirement(
        "SET-12",
        "An unterminated last frame counts if it is whole JSON; otherwise the run is incomplete.",
        "design",
    ),
    Requirement(
        "SET-13",
        "Another content type raises UnexpectedContentTypeError with its first 512 characters; no events, incomplete.",
        "design",
    ),
    Requirement(
        "SET-14",
        "A delta for an activity that is not there and an encrypted value for nothing are skipped with a warning.",
        "design",
    ),
    Requirement(
        "SET-15",
        "A frame over max_event_bytes, or a run that brings more than max_run_bytes, raises StreamTooLargeError.",
        "design",
    ),
    Requirement(
        "SET-16",
        "A peer known to be older gets the input in its own era's form, with a warning where something is lost.",
        "design",
    ),
    Requirement(
        "SET-17",
        "Members of a caller's input with the official model's Python names are taken as theirs, with a warning.",
        "design",
    ),
    Requirement(
        "SET-18",
        "Half of a character, alone, becomes U+FFFD with a warning; two halves in two deltas are one character.",
        "design",
    ),
    Requirement(
        "SET-19",
        "A call that a run names as pending is reported if a snapshot removed it, with a warning, and not executed.",
        "design",
    ),
    Requirement(
        "SET-20",
        "The result of a call in another lane closes nothing there.",
        "design",
    ),
    Requirement(
        "SET-21",
        "The protocolVersion of what is served is this package's own, never an echo.",
        "design",
    ),
    Requirement(
        "SET-22",
        "An encrypted value has the owner of its item, and a span of reasoning that of the message with its id.",
        "design",
    ),
    Requirement(
        "SET-23",
        "A union whose discriminator is missing or no string ends the run.",
        "design",
    ),
    Requirement(
        "SET-24",
        "The same result of a call, word for word, is one message.",
        "design",
    ),
    Requirement(
        "SET-25",
        "A START for a call with a result is the same call if all of it is the same, and otherwise another call.",
        "design",
    ),
    Requirement(
        "SET-26",
        "Interrupts stay pending if the run that answered them fails, and may be answered again.",
        "design",
    ),
    Requirement(
        "SET-27",
        "Several runs in one stream of an agent are one run for the callers of the server that serves it.",
        "design",
    ),
    Requirement(
        "SET-28",
        "A number that is not a JSON number after parsing is a decoding error.",
        "design",
    ),
    Requirement(
        "SET-29",
        "An id of an earlier run continues what it names there; another role is warned about; validate names the id.",
        "design",
    ),
)
