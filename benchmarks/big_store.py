"""A store of 5,000 bugs and 200,000 programs, and how long it takes to list and report it.

python benchmarks/big_store.py --store big          make it (once) and measure
python benchmarks/big_store.py --bugs 500 --programs 20000
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

from driftline.core.case import CheckOptions
from driftline.core.program import SourceBundle
from driftline.core.text import to_json
from driftline.core.verdict import Fingerprint
from driftline.serve.kept_page import SETTLED
from driftline.store import Store
from driftline.store.hunts import HuntLog, Turn, TurnBody

COMPILERS = ("inductor", "onnxruntime", "openvino", "tvm", "iree", "xla", "tflite", "executorch")
KINDS = ("wrong-value", "wrong-nan-inf", "error", "crash", "wrong-shape")
OPERATORS = ("relu", "add", "matmul", "conv2d", "softmax", "cumsum", "where", "gather", "sort", "mean", "exp", "pow")
DTYPES = ("float32", "float16", "int64", "bool", "bfloat16")
BATCH = 100


def make(path: Path, bugs: int, programs: int) -> None:
    """As hunts would have written it: every program a case with a finding, turns with statistics."""
    rng = np.random.default_rng(0)
    moment = "2026-01-{:02}T{:02}:{:02}:{:02}Z"
    with Store.create(path) as store:
        x = store.put_tensors({"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)})
        log = HuntLog(store)
        hunt = log.begin({"seed": 0, "targets": list(COMPILERS)}, {"versions": {}, "left_out": []})
        rows_bugs, rows_cases, rows_findings = [], [], []
        each = programs // bugs
        for number in range(bugs):
            compiler, kind = COMPILERS[number % len(COMPILERS)], KINDS[int(rng.integers(len(KINDS)))]
            names = sorted({str(rng.choice(OPERATORS)) for _ in range(3)})
            dtype = str(rng.choice(DTYPES))
            detail = f"{'+'.join(names)}({dtype}) {number}"
            mark = Fingerprint(compiler, "RUN", kind, detail)
            text = f"import torch\n\n\ndef program():\n    return torch.{names[0]}, (torch.ones(8, 8),)  # {number}\n"
            bundle = SourceBundle("p.py", "program", {"p.py": text})
            with tempfile.NamedTemporaryFile() as file:
                file.write(bundle.dump())
                file.flush()
                digest = store.put_file(Path(file.name))
            seen = moment.format(1 + number % 28, number % 24, number % 60, number % 59)
            rows_bugs.append((mark.bug_id, json.dumps(mark.to_json()), "new", f"output: {detail}", seen, seen))
            program = {
                "form": "source", "framework": "torch", "digest": digest, "name": f"p{number}.py:program",
                "outputs": [],
                "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 8]}], "operators": names, "state": "",
                "origin": "",
            }  # fmt: skip
            verdict = to_json({
                "verdict": "fail", "kind": kind, "reason": f"output: 3 of 64 elements differ; {detail}",
                "evidence": {
                    "output": "output", "dtype": "float32", "elements": 64, "wrong": 3, "z": 12.5, "faults": ["number"],
                    "worst": [{"place": [0, 1], "expected": 1.0, "got": 2.0, "noise": 1e-7}],
                },
                "sighting": {"machine": "x86_64", "operators": names, "dtypes": [dtype], "answers": []},
                "failed_runs": [2, 2],
                "blame": "", "others": dict.fromkeys(COMPILERS, "pass"),
            })  # fmt: skip
            execution = to_json({
                "outcome": "OK", "stage": "RUN", "durations": {"compile": 0.5, "run": 0.01}, "version": "1.0",
                "peak_memory": 1 << 28, "log": "a line of the log\n" * 20,
            })  # fmt: skip
            for case in range(each):
                case_id = f"{number:08x}{case:08x}"
                body = {"program": program, "samples": [{"object": x, "origin": "random seed=0"}],
                        "targets": [compiler], "options": CheckOptions().to_json()}  # fmt: skip
                rows_cases.append((case_id, json.dumps(body), seen))
                rows_findings.append((mark.bug_id, case_id, compiler, verdict, execution, seen))
        with store.transaction() as database:
            database.executemany("INSERT INTO bugs VALUES (?, ?, ?, ?, ?, ?)", rows_bugs)
            database.executemany("INSERT INTO cases VALUES (?, ?, ?)", rows_cases)
            database.executemany(
                "INSERT INTO findings (bug, case_id, target, verdict, execution, created) VALUES (?, ?, ?, ?, ?, ?)",
                rows_findings,
            )
        coverage = {f"{name} {dtype}": {"pass": 7, "fail": 1} for name in OPERATORS for dtype in DTYPES}
        for turn in range(programs // BATCH):
            body = TurnBody(
                BATCH, 1.0, {"pass": 90, "fail": 10}, coverage=coverage, arms=(("graph", "plain", BATCH, 1.0),)
            )
            lane = COMPILERS[turn % len(COMPILERS)]
            log.add_turn(hunt, Turn(lane, turn // len(COMPILERS), body), [])
        log.finish(hunt)


def timed(what: str, *command: str) -> None:
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "driftline", *command], capture_output=True, text=True)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    last = (done.stdout + done.stderr).strip().splitlines()[-1:] or [""]
    print(
        f"{what:34} {seconds:6.2f} s ({busy:.2f} s of a processor)  exit {done.returncode}  {last[0][:100]}", flush=True
    )


def serve(path: Path) -> None:
    """Ask the page for the report twice: the second time it is kept."""
    command = [sys.executable, "-m", "driftline", "serve", "--read-only", "--json", "--port", "0", "--store", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout
        told = ""
        while not told.endswith("}\n"):
            told += server.stdout.readline()
        time.sleep(SETTLED / 1e9)  # what was written just now is not kept
        for what in ("report", "report", "coverage", "coverage", "bugs"):
            began = time.monotonic()
            with urllib.request.urlopen(f"http://127.0.0.1:{json.loads(told)['port']}/{what}") as answer:
                size = len(answer.read())
            print(f"serve: /{what:26} {time.monotonic() - began:6.2f} s  {size / 1e6:.1f} MB", flush=True)
        server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--bugs", type=int, default=5000)
    parser.add_argument("--programs", type=int, default=200_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.store or Path(folder) / "store"
        if not (path / "store.db").exists():
            began = time.monotonic()
            make(path, arguments.bugs, arguments.programs)
            print(f"made in {time.monotonic() - began:.0f} s", flush=True)
        with Store.open(path) as store:
            name = store.bugs()[0].id
        place = ("--store", str(path))
        timed("bugs list", "bugs", "list", *place)
        timed("bugs list --compiler --kind", "bugs", "list", "--compiler", "tvm", "--kind", "crash", *place)
        timed("bugs show, by the beginning", "bugs", "show", name[:-1], *place)
        page = Path(folder) / "report.html"
        timed("report", "report", "--out", str(page), *place)
        print(f"the page has {page.stat().st_size / 1e6:.1f} MB")
        sizes = [other.stat().st_size for other in page.with_name("report-bugs").glob("*.html")]
        if sizes:
            print(f"{len(sizes)} pages of single bugs, the largest {max(sizes) / 1e3:.1f} kB")
        serve(path)


if __name__ == "__main__":
    main()
