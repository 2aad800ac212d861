"""What goes out and comes in, between whom and with what care: INPUT, SSE, PB, VER, CAP, PASS, SEC."""

from __future__ import annotations

from requirements.model import Requirement

_NO_PROTOBUF = "the protobuf binding is optional and not offered; PB-2 keeps servers from choosing it"
_DECLARATIONS = "the client hands a declaration over as data; no run reads it"
_APPLICATION = "the client hands the material over as data and acts on none of it; its use is the application's"

WIRE = (
    Requirement(
        "INPUT-1",
        "A run sends one RunAgentInput with thread id, run id and the full history, and nothing after it.",
        "basic/run-input, basic/patterns/index",
    ),
    Requirement(
        "INPUT-2",
        "The input declares the protocol version, unless the peer is known to predate the field.",
        "basic/run-input, basic/versioning",
    ),
    Requirement(
        "INPUT-3",
        "Last before sending, after middleware, unknown material is removed with a warning and bad input refused.",
        "basic/processing",
    ),
    Requirement(
        "INPUT-4",
        "Activity messages stay at home; reasoning messages and encrypted values travel.",
        "basic/run-input, events/activity, events/reasoning",
    ),
    Requirement(
        "INPUT-5",
        "An input without tools or context says so, by empty lists or by leaving them out.",
        "basic/run-input",
    ),
    Requirement(
        "INPUT-6",
        "Optional fields without a value are left out, never sent as null; nulls inside open objects are sent.",
        "basic/index, basic/run-input",
    ),
    Requirement(
        "INPUT-7",
        "Forwarded properties and context reach the agent exactly as given.",
        "basic/run-input",
    ),
    Requirement(
        "INPUT-8",
        "User and tool messages may be lists of text and media parts.",
        "basic/run-input",
    ),
    Requirement(
        "INPUT-9",
        "A file handle passes through as it is: never fetched, parsed or turned into a URL.",
        "basic/run-input",
    ),
    Requirement(
        "INPUT-10",
        "A media part with an unknown source is dropped, never carried through.",
        "basic/run-input, basic/processing",
    ),
    Requirement(
        "SSE-1",
        "HttpAgent speaks server-sent events.",
        "basic/transports/index",
    ),
    Requirement(
        "SSE-2",
        "A run is one POST of a UTF-8 JSON object that asks for an event stream.",
        "basic/transports/http-sse",
    ),
    Requirement(
        "SSE-3",
        "Only a 200 with an event-stream content type, parameters allowed, starts a stream.",
        "basic/transports/http-sse",
    ),
    Requirement(
        "SSE-4",
        "Each server-sent event is one event object, its data lines joined by newlines.",
        "basic/transports/http-sse",
    ),
    Requirement(
        "SSE-5",
        "The SSE fields event, id and retry are ignored, unless a policy takes cut streams up.",
        "basic/transports/http-sse",
    ),
    Requirement(
        "SSE-6",
        "Comment lines are tolerated wherever they come.",
        "basic/transports/http-sse",
    ),
    Requirement(
        "SSE-7",
        "CR and CRLF line ends are read like LF.",
        "basic/transports/http-sse",
    ),
    Requirement(
        "SSE-8",
        "An HTTP error status raises HTTPStatusError, told apart from failed and rejected runs: none started.",
        "basic/transports/http-sse, basic/run-input",
    ),
    Requirement(
        "SSE-9",
        "A 200 alone is no success.",
        "basic/transports/http-sse",
    ),
    Requirement(
        "SSE-10",
        "A broken connection is picked up only if the application asked for it, and a run is never posted twice.",
        "basic/transports/http-sse",
    ),
    Requirement(
        "SSE-11",
        "The body is read to its end, past the first terminal event.",
        "basic/transports/http-sse",
    ),
    Requirement(
        "SSE-12",
        "A frame that is not a JSON object with a string type ends the stream as a DecodeError; the size of frames is "
        "limited.",
        "basic/transports/http-sse",
    ),
    Requirement(
        "SSE-13",
        "An agent with a transport of its own gets the same contract, its end told apart from truncation.",
        "basic/transports/index",
    ),
    Requirement(
        "PB-1",
        "Protobuf is never asked for.",
        "basic/transports/http-protobuf",
        untested=_NO_PROTOBUF,
    ),
    Requirement(
        "PB-2",
        "The Accept header names the event stream only, without a wildcard.",
        "basic/transports/http-protobuf",
    ),
    Requirement(
        "PB-3",
        "There is one parser to choose, so any other content type is an error (SSE-3).",
        "basic/transports/http-protobuf",
        untested=_NO_PROTOBUF,
    ),
    Requirement(
        "PB-4",
        "Length-prefixed frames are not read.",
        "basic/transports/http-protobuf",
        untested=_NO_PROTOBUF,
    ),
    Requirement(
        "PB-5",
        "Binary frames are not decoded.",
        "basic/transports/http-protobuf",
        untested=_NO_PROTOBUF,
    ),
    Requirement(
        "PB-6",
        "No decoder judges open payloads, since none is binary.",
        "basic/transports/http-protobuf",
        untested=_NO_PROTOBUF,
    ),
    Requirement(
        "PB-7",
        "Envelope arms do not occur.",
        "basic/processing, basic/transports/http-protobuf",
        untested=_NO_PROTOBUF,
    ),
    Requirement(
        "PB-8",
        "The losses the binary binding admits do not occur.",
        "basic/processing, basic/transports/http-protobuf",
        untested=_NO_PROTOBUF,
    ),
    Requirement(
        "VER-1",
        "Versions are compared as MAJOR.MINOR numbers; anything else cannot be interpreted but is not malformed.",
        "basic/versioning",
    ),
    Requirement(
        "VER-2",
        "A newer or uninterpretable version of the producer is warned about and the run continues.",
        "basic/versioning",
    ),
    Requirement(
        "VER-3",
        "An absent or older version is fine, and each RUN_STARTED of a stream is judged on its own.",
        "basic/versioning",
    ),
    Requirement(
        "VER-4",
        "A peer of unknown version is spoken to as a current one.",
        "basic/versioning",
    ),
    Requirement(
        "VER-5",
        "The input is downgraded only for a peer declared older, without touching ids or order.",
        "basic/versioning",
    ),
    Requirement(
        "VER-6",
        "A downgrade invents no values and repairs no malformed ones.",
        "basic/versioning",
    ),
    Requirement(
        "VER-7",
        "A downgrade that loses nothing that counts is silent.",
        "basic/versioning",
    ),
    Requirement(
        "VER-8",
        "A downgrade that loses content warns, with the shape and the reason.",
        "basic/versioning",
    ),
    Requirement(
        "VER-9",
        "A producer's refusal of the version is an ordinary refusal.",
        "basic/versioning",
        untested="it binds producers; whichever way one refuses, SSE-8 and LIFE-7 cover the client's side",
    ),
    Requirement(
        "VER-10",
        "Retired shapes are translated, before enforcement.",
        "basic/versioning",
    ),
    Requirement(
        "VER-11",
        "A translation that loses content is warned about.",
        "basic/versioning",
    ),
    Requirement(
        "VER-12",
        "Thinking events, binary parts and the listed nulls are understood in their 1.0 form; other nulls stay fatal.",
        "basic/versioning",
    ),
    Requirement(
        "VER-13",
        "The version declared is the one the official models were made for, 1.0.",
        "changelog",
    ),
    Requirement(
        "CAP-1",
        "An undeclared capability is None, and not False.",
        "basic/capabilities",
    ),
    Requirement(
        "CAP-2",
        "No run is judged by a declaration.",
        "basic/capabilities",
    ),
    Requirement(
        "CAP-3",
        "Unknown members of a declaration are kept; one with a malformed known member is an error, and is not used.",
        "basic/capabilities",
    ),
    Requirement(
        "CAP-4",
        "No run waits for a declaration, or fails for one.",
        "basic/capabilities",
    ),
    Requirement(
        "CAP-5",
        "Members of a declaration that nobody knows are kept.",
        "basic/capabilities",
    ),
    Requirement(
        "CAP-6",
        "No event or transport behaviour is expected because of a declaration.",
        "basic/capabilities",
        untested=_DECLARATIONS,
    ),
    Requirement(
        "CAP-7",
        "Declared tools and subagents are not mixed with those of a run.",
        "basic/capabilities",
        untested=_DECLARATIONS,
    ),
    Requirement(
        "CAP-8",
        "Capabilities have the protocol's type; they are retrieved only from an address of the application's.",
        "basic/capabilities",
    ),
    Requirement(
        "PASS-1",
        "RAW events reach the caller and change nothing.",
        "events/passthrough",
    ),
    Requirement(
        "PASS-2",
        "A CUSTOM of any name reaches the caller whole, without a warning.",
        "events/passthrough, basic/index",
    ),
    Requirement(
        "SEC-1",
        "RAW and CUSTOM payloads are given no authority; what one of them asks a person is shown as text.",
        "events/passthrough",
    ),
    Requirement(
        "SEC-2",
        "Tool arguments are validated against the tool's schema before the tool sees them.",
        "events/tool-calls",
    ),
    Requirement(
        "SEC-3",
        "A tool that asks for approval runs only after an explicit yes; silence and time-outs are a no.",
        "events/tool-calls, index",
    ),
    Requirement(
        "SEC-4",
        "A tool that was not advertised with the run is never executed.",
        "events/tool-calls",
    ),
    Requirement(
        "SEC-5",
        "The text of a result is never read as protocol or as a user's wish.",
        "events/tool-calls",
        untested=_APPLICATION,
    ),
    Requirement(
        "SEC-6",
        "State is never acted upon.",
        "events/state",
        untested=_APPLICATION,
    ),
    Requirement(
        "SEC-7",
        "Encrypted values go to the agent they came from and appear in no error, warning or log line.",
        "events/reasoning",
    ),
    Requirement(
        "SEC-8",
        "The command line and the ready-made people show what is streamed as text: markup and escapes have no effect.",
        "index",
    ),
    Requirement(
        "SEC-9",
        "Credentials are the application's: sent only to the agent's own origin, and redacted in results.",
        "basic/transports/index",
    ),
)
