"""What is built piece by piece, and by whom: STREAM, CHUNK, REASON, META, SUB."""

from __future__ import annotations

from requirements.model import Requirement

STREAMING = (
    Requirement(
        "STREAM-1",
        "A START for an open id, or content, arguments or an END for one that is not open, is rejected.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "STREAM-2",
        "Deltas join in arrival order, and an item without any is complete.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "STREAM-3",
        "Messages, calls, reasoning and steps may overlap freely, with standalone events anywhere between them.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "STREAM-4",
        "A text message without a role is the assistant's; a given role picks the message type and name its speaker.",
        "events/text-messages",
    ),
    Requirement(
        "STREAM-5",
        "A START on a closed id reopens the item and later deltas append to it.",
        "events/text-messages",
    ),
    Requirement(
        "CHUNK-1",
        "The caller sees chunk events only as the START, content and END events they stand for.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "CHUNK-2",
        "A first chunk without the id (or, for tools, the name) it needs is rejected; no id is invented.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "CHUNK-3",
        "Each owner has one lane with at most one open chunk stream, whatever its kind.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "CHUNK-4",
        "A chunk with the open id continues; one with another id closes the open item before it opens its own.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "CHUNK-5",
        "A chunk with neither id nor tag continues the parent's stream, else the only open one, else is rejected.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "CHUNK-6",
        "A continuation may repeat its opener's values; one that contradicts them, defaults included, is rejected.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "CHUNK-7",
        "Explicit content, step, state, custom and reasoning events close the chunk stream of their lane, END first.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "CHUNK-8",
        "Run events and MESSAGES_SNAPSHOT close the chunk streams of all lanes, a subagent's end closes its own.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "CHUNK-9",
        "RAW, activity, encrypted-value and SUBAGENT_STARTED events leave chunk streams open.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "CHUNK-10",
        "Chunks and explicit events mixed within one open item are rejected.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "CHUNK-11",
        "A chunk's metadata lands on the events made from it, also when it carries nothing else.",
        "basic/patterns/streaming, basic/metadata",
    ),
    Requirement(
        "CHUNK-12",
        "An untagged explicit continuation has a settled lane to close.",
        "basic/patterns/streaming",
    ),
    Requirement(
        "REASON-1",
        "A reasoning span opened twice, ended when not open, or open at the finish is rejected.",
        "events/reasoning",
    ),
    Requirement(
        "REASON-2",
        "Reasoning content or an END without its START is rejected; no message is made up for it.",
        "events/reasoning",
    ),
    Requirement(
        "REASON-3",
        "Reasoning spans and reasoning messages keep separate books and may share an id.",
        "events/reasoning",
    ),
    Requirement(
        "REASON-4",
        "Reasoning messages are stored with the role reasoning, and any other role on them ends the run.",
        "events/reasoning",
    ),
    Requirement(
        "REASON-5",
        "An encrypted value is kept as the string it is, never read.",
        "events/reasoning",
    ),
    Requirement(
        "REASON-6",
        "An encrypted value is stored on the message or call it names and goes out unchanged with the next input.",
        "events/reasoning",
    ),
    Requirement(
        "REASON-7",
        "An encrypted value for an unknown entity, or for an activity message, is skipped with a warning.",
        "events/reasoning",
    ),
    Requirement(
        "REASON-8",
        "An encrypted value may come anywhere in an open run, also for a closed entity.",
        "events/reasoning",
    ),
    Requirement(
        "REASON-9",
        "An unknown encrypted-value subtype drops the event with a warning; one that is no string ends the run.",
        "events/reasoning",
    ),
    Requirement(
        "REASON-10",
        "Losing an encrypted value is always warned about.",
        "events/reasoning",
    ),
    Requirement(
        "REASON-11",
        "The 1.1 field encryptedValueType is removed with a warning, its value kept.",
        "events/reasoning, changelog",
    ),
    Requirement(
        "META-1",
        "The metadata of all events of an item merge key by key, the last write winning.",
        "basic/metadata",
    ),
    Requirement(
        "META-2",
        "A metadata key's object or array is replaced whole.",
        "basic/metadata",
    ),
    Requirement(
        "META-3",
        "Metadata lands on the event's own item: a call's on the call, a result's on the tool message.",
        "basic/metadata",
    ),
    Requirement(
        "META-4",
        "Metadata keys and their nulls pass unjudged and unwarned; null for the whole object is malformed.",
        "basic/metadata",
    ),
    Requirement(
        "SUB-1",
        "A subagent tag never announced is accepted, also again in a later run.",
        "events/subagents",
    ),
    Requirement(
        "SUB-2",
        "An untagged continuation belongs to its opener's owner.",
        "events/subagents",
    ),
    Requirement(
        "SUB-3",
        "A tag that disagrees with the item's owner is rejected, a reopening in the same run included.",
        "events/subagents, events/text-messages",
    ),
    Requirement(
        "SUB-4",
        "A tool call owned by another than the message it is attached to is rejected.",
        "events/subagents, events/tool-calls",
    ),
    Requirement(
        "SUB-5",
        "Steps are counted per owner, and a step's finish must carry its start's tag.",
        "events/subagents, events/lifecycle",
    ),
    Requirement(
        "SUB-6",
        "Announcing an active or finished subagent, or ending one that is not active, is rejected.",
        "events/subagents",
    ),
    Requirement(
        "SUB-7",
        "A RUN_FINISHED with an announced subagent still active is rejected.",
        "events/subagents, events/lifecycle",
    ),
    Requirement(
        "SUB-8",
        "Subagents may interleave, and the end of one leaves the items of the others open.",
        "events/subagents",
    ),
    Requirement(
        "SUB-9",
        "RUN_ERROR abandons every open subagent; SUBAGENT_ERROR ends only its own.",
        "events/subagents",
    ),
    Requirement(
        "SUB-10",
        "A subagent without an outcome succeeded; a suspended one may carry on in a later run.",
        "events/subagents",
    ),
    Requirement(
        "SUB-11",
        "On step, custom, raw and state events a tag says who sent them and changes nothing else.",
        "basic/index, events/subagents",
    ),
)
