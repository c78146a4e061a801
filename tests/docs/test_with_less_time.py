"""Commands that a page shows with an hour, a bug of the reader's own or a language model, run with less of it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from documents import ROOT, blocks
from running import run_in, run_typed, typed_on, write_files

from driftline.store import Store
from driftline.testing import planted_plugin
from driftline.testing.chat_server import MODEL, ChatServer

sys.path.insert(0, str(ROOT / "tests" / "llm"))
sys.path.insert(0, str(ROOT / "tests" / "report"))

from filled_store import fill
from scripted_author import author

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ENDED = (0, 1, 5)  # nothing found, something found, nothing compared in so little time
SHORT = ("--budget", "15s")
LONGER = ("--budget", "30s")  # a budget counts from the beginning


@pytest.mark.parametrize(
    ("page", "beginning"),
    [
        ("docs/targets.md", "driftline hunt"),
        ("docs/tutorial.md", "driftline hunt"),
        ("docs/how-to/accept-reduced-precision.md", "driftline hunt"),
        ("docs/how-to/add-an-accelerator.md", "driftline hunt"),
        ("docs/how-to/audit-rules.md", "driftline patterns audit"),
        ("docs/how-to/big-models.md", "driftline hunt"),
        ("docs/how-to/big-models.md", "driftline patterns audit"),
        ("docs/how-to/diagnose.md", "driftline hunt"),
        ("docs/how-to/find-slow-code.md", "driftline perf hunt --budget"),
        ("docs/how-to/find-slow-code.md", "driftline perf hunt --targets"),
        ("docs/how-to/hunt.md", "driftline hunt"),
        ("docs/how-to/hunt-schedules.md", "driftline schedules hunt"),
        ("docs/how-to/scale.md", "driftline hunt --seed 7"),
        ("docs/how-to/test-passes.md", "driftline passes test"),
    ],
)
def test_a_search(page: str, beginning: str, tmp_path: Path) -> None:
    """It ends with its budget, whatever it found; a report can be written of it; one that is resumed gets more time."""
    write_files(page, tmp_path)
    if (page, beginning) == ("docs/how-to/big-models.md", "driftline patterns audit"):  # it resumes one
        first = run_in(tmp_path, "-m", "driftline", "patterns", "audit", "--compilers", "onnxruntime", *SHORT)
        assert first.returncode in ENDED, first.stderr
    for words in typed_on(page, beginning):
        if "device=cuda" in " ".join(words) or words[:3] == ("driftline", "hunt", "--resume"):
            continue  # shown.py says which test runs it, or why none does
        less = ("--programs", "20") if "--programs" in words else LONGER if "--resume" in words else SHORT
        done = run_in(tmp_path, "-m", "driftline", *words[1:], *less)
        assert done.returncode in ENDED, f"{words}: {done.returncode} {done.stdout[-1500:]} {done.stderr[-3000:]}"
        store = words[words.index("--store") + 1] if "--store" in words else ".driftline"
        report = run_in(tmp_path, "-m", "driftline", "report", "--store", store, "--out", "report.html")
        assert report.returncode == 0 and (tmp_path / "report.html").is_file(), report.stderr


def bug_of(folder: Path) -> tuple[str, str]:
    """The one bug in the reader's store, and its first case."""
    with Store.open(folder / ".driftline") as store:
        (bug,) = store.bugs()
        return bug.id, store.bug(bug.id).findings[0].case_id


def test_a_model_that_fails(wrong_model: Path) -> None:
    """It is found, listed, made smaller, explained and bisected over the releases that are here."""
    checked = run_in(wrong_model, "-m", "driftline", "check", "model.onnx", "--targets", "onnxruntime")
    assert checked.returncode == 1, checked.stderr
    bug, case = bug_of(wrong_model)
    assert bug in run_typed("docs/how-to/find-slow-code.md", "driftline bugs list", wrong_model)
    page = "docs/how-to/reduce.md"
    assert "2 operators" in run_typed(page, "driftline reduce onnxruntime", wrong_model, bug=bug, codes=(1,))
    run_typed(page, "driftline reduce fe4a", wrong_model, case=case, codes=(1,))
    run_typed(page, "driftline reduce model.onnx", wrong_model, codes=(1,))
    page = "docs/how-to/report-a-bug.md"
    assert "Pad_Fusion" in run_typed(page, "driftline ablate", wrong_model, bug=bug, codes=(0, 1))
    page = "docs/how-to/bisect.md"
    beginning = "driftline bisect onnxruntime-c91789e6 --installed"
    answer = re.compile(rf"{bug}: (bad in|first bad)")  # of one release, or of several where there are environments
    assert answer.search(run_typed(page, beginning, wrong_model, bug=bug, codes=(0, 1)))
    assert answer.search(run_typed(page, "driftline bisect model.onnx", wrong_model, codes=(0, 1)))


def test_a_program_that_fails_on_inductor(tmp_path: Path) -> None:
    """The reader's own net.py and model.py are the program of the README, which multiplies by zero."""
    (program,) = (block.text for block in blocks(ROOT / "README.md") if "# zero.py" in block.text)
    for name in ("net.py", "model.py"):
        (tmp_path / name).write_text(program.replace("def program", "def make"))
    run_typed("docs/how-to/reduce.md", "driftline reduce net.py:make", tmp_path, codes=(1,))
    assert "torch" in (tmp_path / "small.py").read_text()
    page = "docs/how-to/diagnose.md"
    assert "Reduced to 1 operator" in run_typed(page, "driftline check", tmp_path, codes=(1,))
    (tmp_path / "zero.py").write_text(program)
    for block in blocks(ROOT / "docs/how-to/use-as-a-library.md"):
        if block.language == "python" and ("# bench.py" in block.text or "bench.failing" in block.text):
            (tmp_path / "block.py").write_text(block.text)
            done = run_in(tmp_path, "block.py")
            assert done.returncode == 0 and done.stdout, done.stderr
    assert (tmp_path / "report.html").is_file()


def test_the_examples(tmp_path: Path) -> None:
    page, store = "examples/README.md", ("--store", str(tmp_path / "store"))
    run_typed(page, "driftline check examples/bugs", ROOT, *store, codes=(1,))
    run_typed(page, "driftline check examples/models", ROOT, *store)


def test_a_rule_is_shown(tmp_path: Path) -> None:
    """The rule of the page, by the name that a release may have given it another id for."""
    listed = run_in(tmp_path, "-m", "driftline", "patterns", "list", "--only", "*softmax*", "--json")
    assert listed.returncode == 0, listed.stderr
    rule = json.loads(listed.stdout)["rules"][0]["id"]
    (words,) = typed_on("docs/how-to/audit-rules.md", "driftline patterns show")
    shown = run_in(tmp_path, "-m", "driftline", *words[1:-1], rule)
    assert shown.returncode == 0 and rule in shown.stdout, shown.stderr


def test_benchmarks(tmp_path: Path) -> None:
    page = "docs/how-to/bench.md"
    quick = ("--models", "resnet18", "--backends", "onnxruntime", "--size", "small", "--repeat", "8", "--seconds", "1")
    run_typed(page, "driftline bench --size", tmp_path, *quick)
    run_typed(page, "driftline bench --models", tmp_path, *quick)
    run_typed(page, "driftline bench compare", tmp_path, codes=(0, 1))
    assert (tmp_path / "after" / "bench.html").is_file()
    (text,) = (block.text for block in blocks(ROOT / page) if block.language == "python")
    few = text.replace('size="small"', 'size="small", repeat=8, seconds=1.0').replace("inductor,onnx", "onnx")
    (tmp_path / "block.py").write_text(few)
    done = run_in(tmp_path, "block.py")
    assert done.returncode == 0 and "bert onnxruntime" in done.stdout, done.stderr


def test_mocks(tmp_path: Path) -> None:
    page = "docs/how-to/hardware-profiles.md"
    said = run_typed(page, "driftline check model:bert --targets mock:profile=npu", tmp_path, codes=(1,))
    assert "wrong-value" in said, "what the narrow arithmetic of the device does to the result is seen"
    quick = ("--size", "small", "--repeat", "8", "--seconds", "1", "--no-verdict")
    run_typed(page, "driftline bench", tmp_path, *quick)


def test_slow_code(own_models: Path) -> None:
    page = "docs/how-to/find-slow-code.md"
    net = (own_models / "net.py").read_text()
    for name in ("fused.py", "plain.py"):
        (own_models / name).write_text(net)
    quick = ("--repeat", "8", "--seconds", "1", "--ratio", "1000")  # the machine may be busy: nothing is that slow
    own = ("--targets inductor,", "--targets inductor --against", "--twin layout")
    for beginning in (*(f"net.py:make {options}" for options in own), "fused.py:make"):
        run_typed(page, f"driftline perf check {beginning}", own_models, *quick)
    growth = "driftline perf check net.py:make --targets inductor --growth"
    run_typed(page, growth, own_models, *quick, "--nodes", "80", "--exponent", "9", codes=(0, 5))


def test_a_language_model(tmp_path: Path) -> None:
    """A server with the answers of a small model, mistakes among them."""
    page = "docs/how-to/language-models.md"
    with ChatServer(author) as server:
        surroundings = {"OPENAI_BASE_URL": server.url, "DRIFTLINE_LLM_MODEL": MODEL}
        said = run_typed(page, "driftline patterns describe", tmp_path, environment=surroundings)
        assert "x is a float" in said
        run_typed(
            page, "driftline hunt", tmp_path, "--llm-tokens", "3000", *SHORT, codes=ENDED, environment=surroundings
        )
        assert server.requests


def test_instabilities(tmp_path: Path) -> None:
    page = "docs/how-to/measure-instabilities.md"
    run_typed(page, "driftline compose", tmp_path, "--ops", "exp,log")
    run_typed(page, "driftline instabilities --models", tmp_path, "--frameworks", "pytorch,onnx", codes=(0, 1))
    run_typed(page, "driftline instabilities report", tmp_path, "--no-map")
    assert (tmp_path / "report" / "frameworks.png").is_file() and (tmp_path / "report" / "summary.md").is_file()


def test_a_plugin_that_only_a_store_names(wrong_model: Path) -> None:
    plugin = planted_plugin()
    checked = run_in(
        wrong_model, "-m", "driftline", "check", "model.onnx", "--targets", "planted-drops-channel", "--plugin", plugin
    )
    assert checked.returncode == 1, checked.stderr
    bug, _ = bug_of(wrong_model)
    page = "docs/explanation/security.md"
    (block,) = (block.text for block in blocks(ROOT / page) if "driftline replay" in block.text)
    done = run_in(wrong_model, "-m", "driftline", "replay", bug)
    sentence = "It is Python code that only the store names, and was not loaded; if you trust the file, add --plugin"
    assert done.returncode == 2 and sentence in " ".join(block.split())
    assert sentence in " ".join(done.stderr.split()) and plugin in done.stderr.replace("\n", "")


def test_sizes_from_python(own_models: Path) -> None:
    page = "docs/how-to/check-a-model.md"
    (text,) = (block.text for block in blocks(ROOT / page) if block.language == "python" and "dims=" in block.text)
    quick = text.replace("dims=", 'targets=["onnxruntime"], dims=').replace("shapes=", 'targets=["eager"], shapes=')
    before = "import driftline\nfrom net import make\n\nmodel, (x,) = make()\n"
    (own_models / "block.py").write_text(before + quick)
    done = run_in(own_models, "block.py")
    assert done.returncode == 0, done.stderr


def test_two_stores_are_compared(tmp_path: Path) -> None:
    for name in ("last-week", "this-week"):
        fill(tmp_path / name)
    run_typed("docs/how-to/read-a-report.md", "driftline report --compare", tmp_path)
    assert (tmp_path / "change.html").is_file()
