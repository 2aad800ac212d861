"""Each promise of the page about surfaces has a test that says the same; a sentence that changes is looked at here."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = " ".join((TESTS.parent / "docs" / "surfaces.md").read_text("utf-8").split())
PROMISES = {
    "a person fills it in and presses a button, and the next run tells the agent": (
        "test_a_ferry_is_booked_on_a_surface_of_an_agent_that_knows_nothing_of_surfaces"
    ),
    "live while events arrive": "test_a_person_books_on_a_surface_and_the_agent_changes_it",
    "part of `agent.snapshot()`, except for what is hidden": (
        "test_what_a_person_entered_survives_in_a_snapshot_without_what_is_hidden"
    ),
    "each with its worked-out `values`": "test_every_value_of_the_examples_is_as_the_official_renderer_resolves_it",
    "of those in a list, the one of an item": (
        "test_a_list_draws_its_component_for_each_item_and_relative_paths_are_the_items"
    ),
    "one that does not fit is a `UsageError`": "test_an_input_takes_what_fits",
    "a `UsageError` if its checks do not hold": "test_a_button_is_pressed_when_its_checks_hold",
    "`surfaces.progress` has the surfaces that are not there yet": "test_the_lifecycle_of_a_surface_is_its_status",
    "that the turn made or changed, of earlier messages, too": (
        "test_a_result_knows_the_surfaces_that_its_turn_changed_of_earlier_messages_too"
    ),
    "the names of what is unknown": "test_what_is_unknown_is_named_and_its_children_are_drawn",
    "nothing in it can be pressed": "test_an_example_is_painted_inert_with_each_text_that_it_shows",
    "draws one below the cell until a button is pressed": "test_a_surface_is_filled_in_and_pressed_on_a_page",
    "checks complain about fields that were touched": "test_checks_complain_after_a_field_was_touched",
    "`agui run`, `agui replay` and `show(run)` write the surfaces": (
        "test_a_form_of_the_agent_is_written_with_how_to_fill_it_in"
    ),
    "`/fill` asks for their fields": "test_a_ferry_is_booked_on_a_form_that_an_agent_of_pydantic_ai_sends",
    "`/set name Ann` and `/press book` do one thing": "test_a_form_of_the_agent_is_shown_filled_in_and_pressed",
    "filled in and pressed where it stands": "test_a_form_of_the_agent_is_filled_in_and_pressed_on_the_page",
    "shows surfaces as they were at any moment": "test_surfaces_are_shown_as_they_were_at_any_moment",
    "Nothing of a surface is run, and nothing is fetched": "test_hostile_surfaces_run_request_and_read_nothing",
    "its message is in `unchecked`": "test_what_an_agent_may_not_have_checked_here_is_left_to_it",
    "at most 1,000 operations in a message": "test_only_the_first_thousand_operations_of_a_message_are_carried_out",
    "what is beyond a limit is left out": "test_a_hostile_surface_costs_in_proportion_and_says_why_it_is_not_whole",
    "v0.8 and v1.0 are refused by name": "test_an_operation_of_another_kind_is_refused_by_name",
    "adds the schema of the basic catalog to the context": "test_the_agent_reads_the_components_and_how_to_send_them",
    "belong to that run alone": "test_an_action_is_told_for_its_run_alone",
    "is offered the tool `render_a2ui`": (
        "test_an_agent_is_offered_the_tool_and_told_of_surfaces_as_the_official_middleware_does"
    ),
    "which appends to it": "test_a_change_that_names_a_path_means_what_a_person_entered_there",
    "returns `surface_result(show_surface(...))`": "test_a_tool_returns_a_surface_as_its_result",
    "can send any action": "test_an_action_that_a_caller_wrote_badly_is_refused",
}


def test_each_promise_of_the_page_has_a_test() -> None:
    tests = {
        name for each in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", each.read_text("utf-8"))
    }
    assert [promise for promise in PROMISES if promise not in PAGE] == []
    assert [test for test in PROMISES.values() if test not in tests] == []
