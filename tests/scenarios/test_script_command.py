"""`driftline check SCRIPT`: its output, its exit codes, and scripts that cannot be judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driftline.checking.checker import Checker
from typed import typed

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTLINE_STORE", str(tmp_path / "store"))


UNFIT = [
    ("needs_argument", "needs arguments on its command line"),
    ("reads_input", "reads its standard input"),
    ("starts_process", "starts a process (subprocess.Popen)"),
    ("never_compiles", "calls nothing that torch.compile, torch._dynamo.optimize, torch.export, torch.jit, "),
    ("raises_early", "ends with NameError: name 'size' is not defined, before it calls anything that a compiler made"),
]


@pytest.mark.parametrize("name, sentence", UNFIT, ids=[name for name, _ in UNFIT])
def test_unfit_script_is_refused_in_one_sentence(name: str, sentence: str) -> None:
    done = typed("check", str(SCRIPTS / f"{name}.py"), "--targets", "aot_eager")
    assert done.returncode == 2
    told = [line for line in done.stderr.splitlines() if line.startswith("driftline:")]
    assert len(told) == 1 and told[0].startswith(f"driftline: {name}.py {sentence}")


def test_script_without_end_is_refused() -> None:
    done = typed("check", str(SCRIPTS / "does_not_end.py"), "--targets", "aot_eager", "--timeout", "2")
    assert (done.returncode, "does not end within 2 s, without the compiler" in done.stderr) == (2, True)


def test_much_output_is_a_note() -> None:
    done = typed("check", str(SCRIPTS / "prints_much.py"))
    assert (done.returncode, "the script prints 2,929 KiB; the first 256 KiB were compared" in done.stdout) == (0, True)


def test_json_has_an_id_for_each_difference() -> None:
    done = typed("check", str(SCRIPTS / "lost_sharing.py"), "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["compared"], told["script"]["name"]) == (1, True, "lost_sharing.py")
    (result,) = told["results"]
    assert (result["target"], result["verdict"], result["calls"]) == ("as-it-stands", "fail", 1)
    assert {one["kind"] for one in result["differences"]} == {"sharing-lost"}
    assert len({one["id"] for one in result["differences"]}) == 2


def test_targets_replace_the_backend_of_the_script() -> None:
    done = typed("check", str(SCRIPTS / "lost_sharing.py"), "--targets", "aot_eager")
    assert (done.returncode, "pass" in done.stdout) == (0, True)


def test_the_script_of_the_page_differs_as_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checker: Checker, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "check-a-script.md").read_text()
    code, _, rest = page.partition("```python\n")[2].partition("```")
    shown = rest.partition("```\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    Path("repro.py").write_text(code)
    done = typed("check", "repro.py")
    assert done.returncode == 1
    (told,) = [line.rstrip() for line in done.stdout.splitlines() if line.startswith("wrong-value-")]
    assert told in shown
    beginning = "after the first call of RunningMean, `self.mean` is wrong: at [1]: expected 0.5,"
    assert beginning in done.stdout and beginning in shown
    (replay,) = [line for line in done.stdout.splitlines() if line.startswith("replay: ")]
    assert replay in shown
    monkeypatch.setattr("driftline.api._checker", checker)
    capsys.readouterr()
    exec(page.rpartition("```python\n")[2].partition("```")[0], {})
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["as-it-stands", "fail"],
        ["aot_eager", "pass"],
    ]


@pytest.mark.parametrize(
    "words, sentence",
    [
        (
            ("--targets", "tvm"),
            "torch.compile runs on as-it-stands, dynamo:eager, aot_eager, aot_eager_decomp, inductor.",
        ),
        (("--targets", "inductor:freezing=true"), "the options of torch.compile stand in the script"),
        (("--grad",), "--grad is for a program that Driftline calls"),
        (("--samples", "3"), "--samples is for a program that Driftline calls"),
    ],
)
def test_option_that_means_nothing_to_a_script_is_refused(words: tuple[str, ...], sentence: str) -> None:
    done = typed("check", str(SCRIPTS / "lost_sharing.py"), *words)
    assert (done.returncode, sentence in done.stderr) == (2, True)
