"""Where the cases about behaviour are played: every case of these files has its test.

What the cases about streams say is compared case by case where the streams are decoded; those in `approval.json`,
`durability.json` and about other providers have files of their own.
"""

import json
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CASES = TESTS.parents[1] / "shared" / "cases"
FILES = ("approval", "durability", "tool_execution", "loop", "memory", "validation", "mcp", "wire")

APPROVAL = "execution/test_approval_cases.py"
CALLS = "execution/test_calls.py"
GENERATORS = "flows/test_generators.py"
EXECUTE = "execution/test_execute.py"
DURABILITY = "journal/test_durability_cases.py"
PROVIDERS = "providers/test_history_cases.py"
VALIDATION = "test_validation_cases.py"
MCP = "mcp/test_mcp_cases.py"
AG_UI = "wire/test_ag_ui.py"
AI_SDK = "wire/test_ai_sdk_cases.py"
PLAYED = {
    "approval-pauses-stream": (APPROVAL, "a_run_ends_before_a_call_that_must_be_approved"),
    "approval-two-in-one-turn": (APPROVAL, "two_questions_of_one_turn_are_answered_in_any_order"),
    "approval-consecutive": (APPROVAL, "what_was_answered_before_a_second_pause_is_not_said_again"),
    "approval-survives-json-and-context": (APPROVAL, "what_goes_on_has_a_context_of_its_own_and_is_not_asked_again"),
    "approval-wrong-answers": (APPROVAL, "wrong_answers_are_refused_and_change_nothing"),
    "durable-no-second-run": (DURABILITY, "what_was_stored_is_used_again"),
    "durable-unknown-outcome": (DURABILITY, "what_had_begun_is_not_paid_again_unasked"),
    "durable-cursor-resume": (DURABILITY, "a_consumer_comes_back_with_the_number_of_its_last_event"),
    "durable-resume-inside-a-part": (
        "wire/test_native_decoder.py", "who_comes_back_inside_of_a_part_needs_no_second_start",
    ),
    "durable-disconnect-is-not-cancel": (
        DURABILITY, "whether_a_lost_consumer_ends_the_run_is_the_choice_of_who_runs_it",
    ),
    "exec-one-of-three-fails": (EXECUTE, "one_of_three_fails_and_the_others_keep_their_results"),
    "exec-results-in-call-order": (EXECUTE, "events_come_as_things_happen_and_results_in_call_order"),
    "exec-sync-tool-does-not-block": (EXECUTE, "a_blocking_function_does_not_hold_up_the_others"),
    "exec-sync-generator-does-not-block": (EXECUTE, "a_plain_generator_shows_its_events_live"),
    "exec-contextvar-reaches-tools": (
        EXECUTE, "tools_see_what_the_caller_set_and_nobody_sees_what_a_tool_set",
    ),
    "exec-generator-closed-on-break": (
        GENERATORS, "a_generator_finishes_its_shielded_cleanup_before_the_block_is_left",
    ),
    "exec-cancel-scope-inside-generator": (
        GENERATORS, "native_scopes_of_asyncio_may_be_held_across_a_yield",
    ),
    "exec-close-does-not-wrap": (GENERATORS, "leaving_early_is_clean_whatever_the_tools_do"),
    "exec-outer-cancel-passes": (CALLS, "native_cancellation_twice_ends_as_cancelled"),
    "exec-consumer-gone-no-deadlock": (
        "flows/test_channel.py", "a_producer_that_waits_is_freed_when_the_consumer_leaves",
    ),
    "exec-slow-consumer-bounded": (CALLS, "a_slow_consumer_slows_the_tool_down"),
    "exec-callback-raises": (CALLS, "an_observer_that_raises_changes_nothing"),
    "exec-finalize-value": (CALLS, "the_model_sees_only_what_the_reducer_made"),
    "exec-events-carry-their-call": (CALLS, "events_carry_their_call"),
    "exec-nested-run-events": (CALLS, "events_of_an_inner_run_keep_their_shape_and_their_path"),
    "exec-tool-timeout": ("execution/test_limits.py", "a_tool_over_its_time_is_cut_off_and_the_other_is_not"),
    "exec-unserialisable-result": (
        EXECUTE, "values_are_written_as_json_and_what_has_no_json_fails_alone",
    ),
    "exec-emit-helper": (CALLS, "what_a_tool_sends_from_anywhere_arrives_before_its_output"),
    "loop-unknown-tool": ("test_loops.py", "an_unknown_tool_is_told_with_the_names_there_are"),
    "loop-unknown-tool-counts": ("test_loops.py", "at_the_limit_of_turns_nothing_dangles"),
    "loop-turn-limit": ("test_loops.py", "at_the_limit_of_turns_nothing_dangles"),
    "loop-abort-during-tools": ("test_loops.py", "cancelling_while_tools_run_leaves_a_usable_history"),
    "loop-abort-during-arguments": ("test_loops.py", "cancelling_while_arguments_are_written_leaves_the_text_only"),
    "loop-length-does-not-run": ("test_loops.py", "a_call_cut_by_the_token_limit_never_runs"),
    "loop-text-before-call-goes-on": ("test_loops.py", "text_before_a_call_is_no_final_answer"),
    "loop-retry-not-doubled": (
        "providers/test_retrying.py", "a_loop_runs_the_calls_of_the_attempt_that_held_and_no_others",
    ),
    "loop-idle-timeout": ("providers/test_retrying.py", "a_silence_that_is_too_long_is_an_error_with_the_turn"),
    "loop-history-cut-keeps-pairs": ("test_history.py", "recent_keeps_at_most_count_items_and_whole_turns"),
    "loop-ids-for-other-provider": (PROVIDERS, "ids_fit_the_rules_of_another_provider"),
    "loop-arguments-sent-back-in-kind": (PROVIDERS, "arguments_go_back_in_the_form_that_the_provider_wants"),
    "memory-many-delta-call": ("test_run_properties.py", "many_small_pieces_of_a_call_cost_memory_once"),
    "memory-abandoned-runs": ("test_run_properties.py", "a_thousand_runs_left_at_their_first_event_leave_nothing"),
    **dict.fromkeys(
        (
            "valid-array-as-text",
            "valid-json-looking-text-stays-text",
            "valid-number-as-text",
            "valid-missing-field-message",
        ),
        (VALIDATION, "arguments_are_mended_or_refused_with_a_message"),
    ),
    "valid-heal-once": (VALIDATION, "heal_once"),
    "valid-heal-gives-up": (VALIDATION, "heal_gives_up"),
    "valid-invalid-json-is-told": (VALIDATION, "invalid_json_is_told"),
    "loop-outer-framework-error-visible": (
        "web/test_response.py", "an_error_after_the_head_is_told_in_the_body_and_logged_once",
    ),
    "wire-ui-start-before-delta": (AI_SDK, "parts_have_their_start_and_their_end"),
    "wire-ui-error-before-any-part": (AI_SDK, "an_error_before_anything_is_one_frame"),
    "wire-ui-abandoned-call": (AI_SDK, "a_call_that_never_runs_is_closed_with_its_reason"),
    "wire-ui-intermediate": (AI_SDK, "intermediates_are_preliminary"),
    "wire-ui-newlines-and-unicode": (AI_SDK, "text_comes_as_it_was_said"),
    "wire-agui-text-closed-before-tool": (AG_UI, "text_is_closed_before_a_call_and_begins_anew_behind_it"),
    "wire-agui-one-terminal-event": (AG_UI, "an_error_is_the_last_event"),
    "wire-agui-interleaved-calls": (AG_UI, "mixed_pieces_of_calls_lie_within_their_own_calls"),
    "mcp-server-dies-mid-call": (MCP, "a_server_that_dies_takes_its_call_along_and_nothing_else"),
    "mcp-progress-requested-and-shown": (MCP, "progress_is_shown_as_events_of_its_call"),
    "mcp-progress-keeps-alive": (MCP, "progress_is_a_sign_of_life_and_does_not_move_the_absolute_limit"),
    "mcp-progress-unknown-token": (MCP, "progress_that_nobody_waits_for_is_ignored"),
    "mcp-error-result": (MCP, "a_result_marked_as_error_is_a_failure_with_its_text"),
    "mcp-close-in-other-task": (MCP, "any_task_may_close_a_connection_while_calls_are_under_way"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_case_has_its_test(name: str) -> None:
    path = CASES / f"{name}.json"
    cases = json.loads(path.read_text("utf-8")) if path.exists() else []
    assert {case["id"] for case in cases} <= PLAYED.keys()


@pytest.mark.parametrize(("file", "name"), sorted(set(PLAYED.values())))
def test_the_test_of_a_case_is_there(file: str, name: str) -> None:
    assert f"def test_{name}(" in (TESTS / file).read_text("utf-8")
