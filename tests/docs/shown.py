"""Which test runs what a page shows: each command by its beginning, each code block by a phrase; or why none does.

A test of tests/docs runs the words of the page, with less time or another bug where it says so. A test of another
folder runs the same command on a small program of its own.

All commands are parsed as well, with their options and targets (test_commands.py), and all code is (test_pages.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NotRun:
    """Only parsed, and why."""

    reason: str


_HERE = "tests/docs/test_blocks.py::"
_LESS = "tests/docs/test_with_less_time.py::"
_SESSION = "tests/docs/test_session.py::"
READER = f"{_HERE}test_models_of_the_reader"
LESS_TIME = f"{_LESS}test_a_search"
_COUNTS = "tests/cli/test_what_counts.py::"
_SCHEDULES = "tests/schedules/test_schedules.py::test_a_stored_bug_is_shown_and_exported_as_a_script_that_was_run"
_A_CAUSE = "tests/causes/test_causes_commands.py::test_a_cause_holds_is_due_for_removal_or_is_wrong"
_INQUIRY = "tests/perf/test_inquiry.py"
_SLOW = "test_the_command_finds_slow_calls_and_compile_time_that_grows_too_fast"
_GOES_ON = "tests/campaign/test_hunt.py::test_interrupted_it_says_how_to_go_on"
_RESUMED = "tests/perf/test_perf_hunt.py::test_a_slow_operator_is_cut_out_of_its_program_and_the_hunt_is_resumed"
_SWAPPED = "tests/diagnose/test_layers.py::test_swapped_heads_are_localised_to_their_layer"
_A_SHORTER_SCRIPT = "tests/diagnose/test_reduce_script.py::test_a_class_with_state_becomes_a_few_lines"
_A_SCRIPT = "tests/scenarios/test_script_command.py::test_the_script_of_the_page_differs_as_it_shows"
_A_SCENARIO = "tests/scenarios/test_scenario_functions.py::test_function_of_the_page_passes_in_the_test_of_the_page"
_SERVED = "tests/serve/test_serve_command.py::test_it_prints_an_address_answers_and_stops_its_jobs_at_the_end"
_DOWNLOADS = NotRun("it downloads releases of a compiler")
_GPU = NotRun("it needs a GPU")

COMMANDS: dict[str, dict[str, str | NotRun]] = {
    "examples/README.md": {"driftline check": f"{_LESS}test_the_examples"},
    "docs/targets.md": {"driftline check": READER, "driftline hunt": LESS_TIME},
    "docs/tutorial.md": {
        "driftline": f"{_HERE}test_the_tutorial",
        "driftline hunt": LESS_TIME,
        "driftline report": LESS_TIME,
    },
    "docs/explanation/security.md": {"driftline replay": f"{_LESS}test_a_plugin_that_only_a_store_names"},
    "docs/how-to/accept-reduced-precision.md": {
        "driftline check gpt.py:make": f"{_COUNTS}test_the_person_decides",
        "driftline hunt": LESS_TIME,
        "driftline check model.onnx": f"{_COUNTS}test_what_is_new_against_a_baseline",
    },
    "docs/how-to/add-a-backend.md": {
        "driftline doctor": f"{_SESSION}test_the_backend_of_the_page_is_a_target",
        "driftline check": f"{_SESSION}test_the_backend_of_the_page_is_a_target",
    },
    "docs/how-to/add-an-accelerator.md": {
        "driftline check": f"{_HERE}test_an_accelerator",
        "driftline hunt": LESS_TIME,
    },
    "docs/how-to/audit-rules.md": {
        "driftline patterns list": READER,
        "driftline patterns show": f"{_LESS}test_a_rule_is_shown",
        "driftline patterns audit": LESS_TIME,
        "driftline patterns audit --targets inductor:device=cuda": _GPU,
        "driftline patterns diff": _DOWNLOADS,
    },
    "docs/how-to/bench.md": {"driftline bench": f"{_LESS}test_benchmarks"},
    "docs/how-to/big-models.md": {
        "driftline check": READER,
        "driftline hunt": LESS_TIME,
        "driftline hunt --resume": _GOES_ON,
        "driftline patterns audit": LESS_TIME,
    },
    "docs/how-to/bisect.md": {
        "driftline bisect": _DOWNLOADS,
        "driftline bisect onnxruntime-c91789e6 --installed": f"{_LESS}test_a_model_that_fails",
        "driftline bisect model.onnx": f"{_LESS}test_a_model_that_fails",
    },
    "docs/how-to/causes.md": {
        "driftline causes list": f"{_HERE}test_causes",
        "driftline causes show": f"{_HERE}test_causes",
        "driftline causes check": _A_CAUSE,
    },
    "docs/how-to/check-a-model.md": {"driftline check": READER},
    "docs/how-to/check-a-script.md": {"driftline check": _A_SCRIPT, "driftline reduce": _A_SHORTER_SCRIPT},
    "docs/how-to/compare-targets.md": {"driftline check": READER},
    "docs/how-to/diagnose.md": {
        "driftline diagnose": f"{_HERE}test_the_tutorial",
        "driftline check": f"{_LESS}test_a_program_that_fails_on_inductor",
        "driftline hunt": LESS_TIME,
    },
    "docs/how-to/find-slow-code.md": {
        "driftline perf check": f"{_LESS}test_slow_code",
        "driftline perf check model.onnx --targets onnxruntime --against onnxruntime@1.15.1": _DOWNLOADS,
        "driftline perf hunt": LESS_TIME,
        "driftline perf hunt --resume": _RESUMED,
        "driftline bugs list": f"{_LESS}test_a_model_that_fails",
        "driftline replay inductor-1f3a": f"tests/perf/test_perf_check.py::{_SLOW}",
        "driftline replay inductor-1f3a --target": _DOWNLOADS,
        "driftline reduce inductor-1f3a": f"{_INQUIRY}::test_a_program_is_reduced_to_the_operator_that_is_slow",
        "driftline ablate inductor-1f3a": f"{_INQUIRY}::test_the_pass_that_makes_a_program_slow_is_found",
        "driftline bisect onnxruntime-77b0 --installed": NotRun(
            "it needs other releases; tests/perf asks its question"
        ),
        "driftline diagnose inductor-1f3a": NotRun("minutes; tests/perf reduces and ablates slow programs"),
    },
    "docs/how-to/find-unstable-inputs.md": {
        "driftline inputs net.py": f"{_HERE}test_unstable_inputs",
        "driftline check": f"{_HERE}test_unstable_inputs",
        "driftline inputs convert": f"{_HERE}test_files_of_other_tools",
        "driftline inputs convert test000001": "tests/inputs/test_foreign.py::test_a_test_case_of_klee_is_read",
    },
    "docs/how-to/hardware-profiles.md": {
        "driftline check": f"{_LESS}test_mocks",
        "driftline check model:bert-base": "tests/inductor/test_mock.py::test_bert_base_under_the_strict_matrix_engine",
        "driftline bench": f"{_LESS}test_mocks",
    },
    "docs/how-to/hunt-schedules.md": {
        "driftline schedules list": READER,
        "driftline schedules hunt": LESS_TIME,
        "driftline schedules replay": _SCHEDULES,
        "driftline schedules export": _SCHEDULES,
        "driftline report": LESS_TIME,
    },
    "docs/how-to/hunt.md": {
        "driftline hunt": LESS_TIME,
        "driftline report": LESS_TIME,
        "driftline hunt --resume": _GOES_ON,
        "driftline hunt --targets eager:device=cuda": _GPU,
    },
    "docs/how-to/inductor-lab.md": {
        "driftline inductor": f"{_HERE}test_the_lab",
    },
    "docs/how-to/language-models.md": {
        "driftline patterns describe": f"{_LESS}test_a_language_model",
        "driftline hunt": f"{_LESS}test_a_language_model",
    },
    "docs/how-to/look-inside-a-model.md": {
        "driftline check": READER,
        "driftline check swapped.onnx": _SWAPPED,
    },
    "docs/how-to/measure-coverage.md": {"driftline coverage": f"{_HERE}test_coverage"},
    "docs/how-to/measure-instabilities.md": {
        "driftline compose": f"{_LESS}test_instabilities",
        "driftline instabilities": f"{_LESS}test_instabilities",
    },
    "docs/how-to/read-a-report.md": {
        "driftline report --out": f"{_SESSION}test_the_picture_of_the_readme",
        "driftline report --compare": f"{_LESS}test_two_stores_are_compared",
    },
    "docs/how-to/real-models.md": {
        "driftline models list": f"{_SESSION}test_the_picture_of_the_readme",
        "driftline check model:": "tests/models/test_judged.py::test_a_model_of_the_corpus_is_judged",
        "driftline check bert.onnx": "tests/models/test_judged.py::test_bert_as_optimum_writes_it_is_judged",
        "driftline models export bert": "tests/models/test_corpus.py::test_an_exported_file_has_named_axes",
        "driftline models export resnet-50": NotRun("it writes a file of 100 MB"),
    },
    "docs/how-to/reduce.md": {
        "driftline reduce": f"{_LESS}test_a_model_that_fails",
        "driftline reduce net.py": f"{_LESS}test_a_program_that_fails_on_inductor",
    },
    "docs/how-to/report-a-bug.md": {
        "driftline reduce": f"{_LESS}test_a_model_that_fails",
        "driftline ablate": f"{_LESS}test_a_model_that_fails",
        "driftline bisect": _DOWNLOADS,
        "driftline export": f"{_SESSION}test_the_picture_of_the_readme",
    },
    "docs/how-to/scale.md": {
        "driftline hunt --seed 7": LESS_TIME,
        "driftline hunt --budget 2h": NotRun("Slurm gives it its number; the same command with a number is run"),
        "driftline hunt --cluster HEAD": NotRun("it needs a cluster"),
        "driftline hunt --cluster local:2": "tests/cluster/test_ray.py::test_a_node_that_dies_changes_nothing",
        "driftline store": f"{_HERE}test_stores_of_several_machines",
        "driftline report": f"{_HERE}test_stores_of_several_machines",
        "driftline watch": "tests/campaign/test_watching.py::test_a_night_replays_hunts_and_tells",
    },
    "docs/how-to/serve.md": {
        "driftline serve": _SERVED,
        "driftline serve --read-only": NotRun("it lets other machines in; tests/serve has read-only servers"),
    },
    "docs/how-to/test-passes.md": {
        "driftline passes list": READER,
        "driftline check": READER,
        "driftline passes test": LESS_TIME,
    },
}

_PLUGIN = "tests/testing/test_pytest_plugin.py::test_the_page_about_it_holds"
_BLOCK = f"{_SESSION}test_a_code_block_runs"

CODE: dict[str, dict[str, str | NotRun]] = {  # a phrase of each block of Python
    "README.md": {"# zero.py": f"{_SESSION}test_the_picture_of_the_readme", "driftline.check(": _BLOCK},
    "docs/tutorial.md": {"# zero.py": f"{_HERE}test_the_tutorial"},
    "docs/how-to/add-a-backend.md": {
        "# mychip.py": f"{_SESSION}test_the_backend_of_the_page_is_a_target",
        "SCRIPT =": NotRun("a part of mychip.py; tests/report has such scripts of every backend"),
        "BackendConformance": "tests/testing/test_planted.py::test_the_conformance_suite_catches_planted_bugs",
    },
    "docs/how-to/add-an-accelerator.md": {
        "# tinychip.py": f"{_HERE}test_an_accelerator",
        "# model.py": f"{_HERE}test_an_accelerator",
        "# program.py": f"{_HERE}test_an_accelerator",
        "# test_tinychip.py": "tests/inductor/test_adapters.py::test_it_passes_the_conformance_suite",
    },
    "docs/how-to/bench.md": {"run_bench": f"{_LESS}test_benchmarks"},
    "docs/how-to/check-a-model.md": {
        "dims=": f"{_LESS}test_sizes_from_python",
        "past_key_values": NotRun("a part of a factory with a cache; tests/programs has whole ones"),
    },
    "docs/how-to/check-a-script.md": {
        "on_copies": _A_SCRIPT,
        "driftline.check_script": _A_SCRIPT,
        "two_calls": _A_SCENARIO,
    },
    "docs/how-to/find-unstable-inputs.md": {"# net.py": f"{_HERE}test_unstable_inputs"},
    "docs/how-to/hardware-profiles.md": {
        "mock_backend": f"{_HERE}test_hardware_profiles",
        "@dataclass": f"{_HERE}test_hardware_profiles",
    },
    "docs/how-to/hunt.md": {"register_generator": _BLOCK},
    "docs/how-to/inductor-lab.md": {
        "# net.py": f"{_HERE}test_the_lab",
        "def step": f"{_HERE}test_the_lab_from_python",
        "def inspect": f"{_HERE}test_the_lab_from_python",
        "def compare": f"{_HERE}test_the_lab_from_python",
    },
    "docs/how-to/real-models.md": {"models.build": _BLOCK},
    "docs/how-to/report-a-bug.md": {
        "floor_divide": f"{_SESSION}test_the_script_of_a_bug_shows_the_bug",
        "onnxruntime==1.26.0": NotRun("it needs another release of a compiler"),
    },
    "docs/how-to/test-with-pytest.md": dict.fromkeys(
        ("def test_gelu", "assert_close_by_rounding", "driftline_check(program)", "program.load()"), _PLUGIN
    ),
    "docs/how-to/use-as-a-library.md": {
        "# bench.py": f"{_LESS}test_a_program_that_fails_on_inductor",
        "bench.failing": f"{_LESS}test_a_program_that_fails_on_inductor",
        "def twice": _BLOCK,
        "def listen": _BLOCK,
    },
}
