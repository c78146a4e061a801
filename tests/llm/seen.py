"""What a worker can see of its surroundings; run in a process of its own by the tests of the key."""

from __future__ import annotations

import os
import subprocess
import sys

from driftline.core.task import Context, Task
from driftline.execute.pool import Pool, WorkerKind
from driftline.llm.settings import llm_settings

SEEN = Task("seen:environment_seen", dict[str, str], dict[str, str])


@SEEN.serve
def environment_seen(payload: dict[str, str], context: Context) -> dict[str, str]:
    """Runs in a worker: what it, and what it starts, can see of the key, in its own environment and its parents'."""
    ours = dict(os.environ)
    child = subprocess.run([sys.executable, "-c", "import os; print(dict(os.environ))"], capture_output=True, text=True)
    around = []
    for pid in (os.getpid(), os.getppid(), int(payload["parent"])):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                around.append(file.read().decode(errors="replace"))
        except OSError as error:
            around.append(str(error))
    return {"all": repr([ours, child.stdout, around])}


def ask() -> None:
    with Pool() as pool:
        assert llm_settings({}).key
        print(pool.ask(WorkerKind("plain"), SEEN, {"parent": str(os.getpid())})["all"])
