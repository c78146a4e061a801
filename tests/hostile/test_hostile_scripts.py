"""A script for a bug report that a stranger's store brought: what it does outside of its folder, and leaves behind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

from driftline.core.removal import remove_tree
from driftline.execute import limits
from driftline.execute.confined import Allowed, Ended
from driftline.execute.sandbox import MORE, enter
from driftline.report.export.clean_run import FROM_METADATA, HERE, CleanRun, can_make_environments, run_clean
from hostile.attack import DEEP, Attack, both_ways, replacing, small_stack

METADATA = '# /// script\n# requires-python = ">=3.9"\n# dependencies = []\n# ///\n'


def _as_before(
    command: Sequence[str], folder: Path, variables: dict[str, str], allowed: Allowed, sandboxed: bool = True
) -> Ended:
    """As scripts were run before there was a supervisor."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=allowed.seconds, cwd=folder, env=variables,
            preexec_fn=partial(enter, allowed.writable) if sandboxed else None,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Ended(None, "", "", "", allowed.seconds)
    return Ended(done.returncode, "", done.stdout, done.stderr, 0.0)


def _write_to_the_home(place: Path, python: str, head: str = "") -> str:
    with pytest.MonkeyPatch.context() as own:
        own.setenv(MORE, "")
        run_clean(f"{head}open({str(place / 'planted')!r}, 'w').write('x')", python=python)
    return "a file was written" if (place / "planted").exists() else ""


def _make_environment_of_a_stranger(place: Path) -> str:
    """The script names a package at an address: building the package would run its code."""
    package = place / "evil"
    package.mkdir()
    (package / "setup.py").write_text(f"open({str(place / 'built')!r}, 'w')\n")
    head = f'# /// script\n# dependencies = ["evil @ {package.as_uri()}"]\n# ///\n'
    run_clean(f"{head}print(1)", python=FROM_METADATA)
    return "the package was built" if (place / "built").exists() else ""


def _outlive(place: Path) -> str:
    """A process that left its session, its group and its environment, and was orphaned."""
    idle = f"import signal; signal.pause() # {place}"
    text = (
        "import os, sys\nreading, writing = os.pipe()\nif os.fork() == 0:\n    os.setsid()\n    os.close(reading)\n"
        "    for fd in (0, 1, 2):\n        os.close(fd)\n"
        f"    os.execve(sys.executable, [sys.executable, '-I', '-c', {idle!r}], {{}})\n"
        "os.close(writing)\nos.read(reading, 1)\n"  # closed when the other program has begun
    )
    run_clean(text, limit=20)
    left = [one for one in psutil.process_iter(["cmdline"]) if idle in (one.info["cmdline"] or ())]
    for one in left:
        one.kill()
    return "a process goes on" if left else ""


def _print_much(place: Path) -> str:
    ran = run_clean("import sys\nfor _ in range(24):\n    sys.stdout.write('x' * (1 << 20))\nsys.exit('BUG: shown')")
    assert ran.status == 1
    assert ran.shows_bug
    return f"{len(ran.output) >> 20} MiB are kept" if len(ran.output) > 4 << 20 else ""


def _plant(place: Path) -> str:
    """What a script leaves in the cache of its compiler is loaded by the next script."""
    library = "__import__('os').environ['TORCHINDUCTOR_CACHE_DIR'] + '/planted.so'"
    run_clean(f"import os\nos.makedirs(os.path.dirname({library}), exist_ok=True)\nopen({library}, 'w')")
    return run_clean(f"import os\nprint('found' if os.path.exists({library}) else '')").output.strip()


def _use_up(text: str, what: str) -> Callable[[Path], str]:
    def run(place: Path) -> str:
        with pytest.MonkeyPatch.context() as small:
            small.setattr(limits, "PROCESSES", 20)
            small.setattr("driftline.report.export.clean_run.MEMORY", 256 << 20)
            ran = run_clean(f"{text}\nimport signal\nprint('has all', flush=True)\nsignal.pause()", limit=3)
        return "" if what in ran.why else "no limit was met"

    return run


def _leave_deep_folders(place: Path) -> str:
    """So many folders inside of each other that a function which calls itself for each cannot remove them."""
    text = f"import os\nfor _ in range({DEEP}):\n    os.mkdir('d')\n    os.chdir('d')\n"
    try:
        with small_stack():
            ran = run_clean(text)
    except RecursionError:
        return "the process that cleans up ends"
    assert ran.status == 0
    return ""


def _remove_by_recursion(path: Path) -> None:
    try:
        shutil.rmtree(path)
    finally:
        remove_tree(path)


@contextmanager
def _one_folder(files: dict[str, bytes]) -> Iterator[Path]:
    """As scripts had one cache for all."""
    folder = Path(os.environ["DRIFTLINE_CACHE"]) / "scripts"
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    yield folder


def _in_a_cache(run: Callable[[Path], str]) -> Callable[[Path], str]:
    def with_cache(place: Path) -> str:
        with pytest.MonkeyPatch.context() as own:
            own.setenv("DRIFTLINE_CACHE", str(place / "cache"))
            return run(place)

    return with_cache


def _any_requirement(weak: pytest.MonkeyPatch) -> None:
    """As uv was told: build what the script names."""
    begin = subprocess.run
    weak.setattr("driftline.report.export.clean_run._PINNED", re.compile(".*"))
    weak.setattr(
        "subprocess.run",
        lambda command, **more: begin([word for word in command if word != "--no-build"], **more),
    )


HOME = "driftline.report.export.clean_run"
unsupervised = replacing(f"{HOME}.run_confined", _as_before)
free = replacing(f"{HOME}.run_confined", partial(_as_before, sandboxed=False))
MANY = "import os\nfor _ in range(40):\n    if os.fork() == 0:\n        __import__('signal').pause()"
ATTACKS = [
    Attack("script-writes-elsewhere", lambda place: _write_to_the_home(place, HERE), free),
    Attack(
        "script-with-packages-writes-elsewhere",
        lambda place: _write_to_the_home(place, FROM_METADATA, METADATA) if can_make_environments() else "",
        free,
    ),
    Attack("script-names-a-package-to-be-built", _make_environment_of_a_stranger, _any_requirement),
    Attack("script-outlives-its-run", _outlive, unsupervised),
    Attack("script-prints-much", _print_much, unsupervised),
    Attack(
        "script-plants-a-library", _in_a_cache(_plant), replacing(f"{HOME}._folder_with", _one_folder)
    ),
    Attack("script-takes-all-memory", _use_up("kept = b'x' * (400 << 20)", "memory"), unsupervised),
    Attack("script-starts-many-processes", _use_up(MANY, "processes"), unsupervised),
    Attack("script-leaves-deep-folders", _leave_deep_folders, replacing(f"{HOME}.remove_tree", _remove_by_recursion)),
]  # fmt: skip
test_attack_fails = both_ways(ATTACKS)


def test_ended_script_says_why() -> None:
    ran = run_clean("import signal\nsignal.pause()", limit=1)
    assert ran == CleanRun(None, "", "", ran.seconds, ran.why)
    assert ran.ending == "it did not end within 1 s"


def test_script_is_ended_with_the_process_that_started_it(tmp_path: Path, eventually: Callable[..., None]) -> None:
    """As when Driftline is killed in the middle of an export."""
    idle = f"import signal; open('mark', 'w'); signal.pause() # {tmp_path}"
    starting = (
        "from pathlib import Path; from driftline.execute.confined import *\n"
        f"here = Path({str(tmp_path)!r})\n"
        f"run_confined([{sys.executable!r}, '-I', '-c', {idle!r}], here, {{}}, Allowed((here,), 60, 1 << 30))"
    )
    parent = subprocess.Popen([sys.executable, "-c", starting])
    eventually((tmp_path / "mark").exists)
    parent.kill()
    parent.wait()
    eventually(lambda: not any(idle in (one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])))
