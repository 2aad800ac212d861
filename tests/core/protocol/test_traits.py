"""One row of traits for each type of event, and a place for each type in the tables of behaviour that it concerns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from ag_ui.core import BaseEvent

import agui_client
from agui_client import Subscriber
from agui_client._core.protocol.open_items import RunItems
from agui_client._core.protocol.reduce import REDUCTIONS
from agui_client._core.protocol.schema import EVENT_MODELS
from agui_client._core.protocol.traits import TRAITS, Subject, types_about
from agui_client._core.protocol.warnings import WarningLog
from agui_client.doctor._probes import FAMILIES
from agui_client.teams._event_forwarder import EventForwarder, ItemOwners, StatePolicy
from agui_client.teams._id_scope import IdMap
from agui_client.teams._state import StateEvent

_WORD = re.compile(r"\w+")
_CHUNKS = set(types_about(part="chunk"))


def _names(types: set[type[BaseEvent]]) -> set[str]:
    return {each.__name__ for each in types}


def test_each_class_of_the_official_union_has_a_row() -> None:
    assert _names(set(TRAITS)) == _names(set(EVENT_MODELS.values()))


def test_each_type_that_leaves_expansion_has_a_hook() -> None:
    delivered = {name for name, model in EVENT_MODELS.items() if model not in _CHUNKS}
    assert [name for name in delivered if not hasattr(Subscriber, f"on_{name.lower()}_event")] == []


def test_each_type_about_messages_or_the_state_has_a_reduction() -> None:
    about = set(types_about("text", "reasoning", "call", "value", "state", "messages", "activity"))
    assert _names(about - set(REDUCTIONS)) == set()


def test_each_beginning_piece_and_end_of_an_item_has_a_check_of_its_order() -> None:
    items = {each for each in types_about("text", "reasoning", "phase", "call") if each not in _CHUNKS}
    assert _names(items - set(RunItems(WarningLog()).checks())) == set()


@pytest.mark.parametrize("policy", get_args(StatePolicy))
def test_teams_pass_on_by_a_handler_of_its_own_each_type_about_a_run_an_item_or_the_state(policy: StatePolicy) -> None:
    forwarder = EventForwarder(
        IdMap("call", "thread/"), speaks=False, state=policy, state_key="member", owners=ItemOwners()
    )
    handled = {each for each, row in TRAITS.items() if row.about != "other" and each not in _CHUNKS}
    assert _names(set(forwarder._handlers)) == _names(handled)


def test_teams_take_each_type_about_the_state_into_theirs() -> None:
    assert _names(set(get_args(StateEvent))) == _names(set(types_about("state")))


@pytest.mark.parametrize("subject", ["state", "activity"])
def test_a_module_that_tells_snapshots_from_patches_knows_each_type_about_their_subject(subject: Subject) -> None:
    types = _names(set(types_about(subject)))
    two_kinds = {TRAITS[each].part for each in types_about(subject)} >= {"snapshot", "delta"}
    package = Path(agui_client.__file__).parent
    named = {
        each.relative_to(package): types & set(_WORD.findall(each.read_text("utf-8"))) for each in package.rglob("*.py")
    }
    assert two_kinds
    assert {str(module): types - known for module, known in named.items() if len(known) > 1 and known != types} == {}


def test_the_doctor_knows_the_ability_that_each_type_shows() -> None:
    shown_by_all = ("RUN_", "TEXT_MESSAGE_", "TOOL_CALL_")
    assert [each for each in EVENT_MODELS if not each.startswith((*shown_by_all, *FAMILIES.values()))] == []
