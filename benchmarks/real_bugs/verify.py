"""Runs scripts of this folder with and without the compiler and prints what each printed, for reading.

    python verify.py scripts/views_*.py                     # as it stands, and eagerly
    python verify.py correct --modes eager,aot_eager,inductor --brief

In the mode `eager` the script's own torch.compile, torch.export and AOTInductor calls return what they were given;
in `stands` nothing is changed; `aot_eager`, `inductor`, ... replace the backend. Each run is a process of its own.
The scripts know nothing of this file, and this file nothing of them: whoever reads the outputs judges.
"""

import argparse
import functools
import os
import random
import runpy
import signal
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
import torch._dynamo
import torch._inductor.compile_fx
import torch.export


class EagerProgram:
    """Stands for an exported program: the module itself."""

    def __init__(self, module):
        self._module = module

    def module(self, *args, **kwargs):
        return self._module

    def run_decompositions(self, *args, **kwargs):
        return self


def without_the_compiler():
    """Replace what compiles by what returns its argument, for calls from the script alone."""
    real_compile = torch.compile

    def compile(model=None, **options):
        if sys._getframe(1).f_globals.get("__name__") != "__main__":
            return real_compile(model, **options)
        return (lambda function: function) if model is None else model

    def compile_module(self, *args, **options):
        return None

    def region(function=None, **options):
        return (lambda inner: inner) if function is None else function

    torch.compile = compile
    torch.nn.Module.compile = compile_module
    torch.compiler.nested_compile_region = region
    torch.export.export = lambda module, *args, **kwargs: EagerProgram(module)
    torch.export.unflatten = lambda program, *args, **kwargs: program.module()
    torch.export.save = lambda program, file, **kwargs: setattr(torch.export, "kept", program)
    torch.export.load = lambda file, **kwargs: torch.export.kept
    torch._inductor.aoti_compile_and_package = lambda program, **kwargs: program
    torch._inductor.aoti_load_package = lambda program, **kwargs: program.module()


def with_backend(backend):
    """Replace the backend of each torch.compile call of the script."""
    real_compile = torch.compile

    @functools.wraps(real_compile)
    def compile(model=None, **options):
        if sys._getframe(1).f_globals.get("__name__") == "__main__":
            options["backend"] = backend
        return real_compile(model, **options)

    torch.compile = compile


def run_script(path, mode):
    """Run one script in this process, which ends with it."""
    if mode == "eager":
        without_the_compiler()
    elif mode != "stands":
        with_backend(mode)
    random.seed(0)
    torch.manual_seed(0)
    sys.argv = [str(path)]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except BaseException as error:  # the script's last word, as a reader of the output wants to see it
        lines = str(error).strip().splitlines() or [""]
        print(f"raised {type(error).__module__}.{type(error).__name__}: {lines[0][:200]}")
    sys.stdout.flush()


def output_of(path, mode, seconds):
    """Run a script in a child process and return what it printed."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            os.setsid()
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            run_script(path, mode)
            os._exit(0)
        status = wait(child, seconds)
        out.seek(0)
        text = out.read()
        if status is None:
            text += f"\nran longer than {seconds} s"
        elif os.WIFSIGNALED(status):
            text += f"\nended by signal {os.WTERMSIG(status)}"
        return text.strip()


def wait(child, seconds):
    """Wait for a child and return its status, or None if it had to be stopped."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--modes", default="eager,stands")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--brief", action="store_true", help="print the outputs only where they differ")
    options = parser.parse_args()
    paths = [p for path in options.paths for p in (sorted(path.glob("*.py")) if path.is_dir() else [path])]
    modes = options.modes.split(",")
    different = 0
    for path in paths:
        outputs = {mode: output_of(path, mode, options.seconds) for mode in modes}
        same = len(set(outputs.values())) == 1
        different += not same
        print(f"=== {path.stem}: {'same' if same else 'DIFFERENT'}", flush=True)
        if same and options.brief:
            continue
        for mode, text in outputs.items():
            print(f"--- {mode}\n{text}", flush=True)
    print(f"torch {torch.__version__}: {different} of {len(paths)} different")


if __name__ == "__main__":
    main()
