"""What tests share: one pool of workers for the session, a browser, and waiting on conditions instead of sleeping."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from driftline.checking.checker import Checker
from driftline.core.strangers import one_run
from driftline.execute.pool import Pool
from kept_nurseries import KeptNurseries, kept_nurseries, relieve

pytest_plugins = ["costs"]

# The same examples each time, so that a change is what breaks a test; `make test-all` looks for new ones. A busy
# machine is no reason to fail.
settings.register_profile("steady", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("searching", deadline=None, max_examples=1000)
settings.load_profile("steady")

# Started in the background of a shell, we would ignore interrupts, and so would every process that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Tests start hundreds of processes: each would compile Driftline anew where the shell forbids to keep the result.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Two processes run tests on two processors: threads of theirs would wait for each other, and spin.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ["DRIFTLINE_WRITABLE"] = tempfile.gettempdir()  # where tests have their workers leave marks
os.environ["XDG_CONFIG_HOME"] = os.devnull  # the settings of whoever runs the tests are none of theirs


CHROMIUM_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        pytest.skip("chromium is not installed; make install does it where apt-get is")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


_KEPT = pytest.StashKey[KeptNurseries]()
OWN_NURSERIES = ("execute", "measure", "cluster")  # what these folders test is how processes begin and end


@pytest.fixture(scope="session", autouse=True)
def _kept(request: pytest.FixtureRequest) -> Iterator[None]:
    with kept_nurseries() as kept:
        request.config.stash[_KEPT] = kept
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if kept := item.config.stash.get(_KEPT, None):
        kept.on = item.path.parent.name not in OWN_NURSERIES
    return (yield)


# Files of these folders take seconds: run last, they leave both processes busy to the end.
SHORT = ("core", "oracle", "store", "measure", "causes", "coverage", "hardware", "fuzz")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.parent.name in SHORT)


_SHARED = pytest.StashKey[Pool]()


@pytest.fixture(scope="session")
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    with Pool() as pool:
        request.config.stash[_SHARED] = pool
        yield pool
        del request.config.stash[_SHARED]


@pytest.fixture(autouse=True)
def _no_strangers() -> Iterator[None]:
    """Forget whose programs other tests of this process ran: a command is a process of its own."""
    with one_run():
        yield


@pytest.fixture(scope="module", autouse=True)
def _relieved(request: pytest.FixtureRequest) -> Iterator[None]:
    """A file of tests leaves few warm processes in the pool that all files share."""
    yield
    pool = request.config.stash.get(_SHARED, None)
    if pool:
        relieve(pool, request.config.stash[_KEPT])


@pytest.fixture(scope="session")
def checker(pool: Pool) -> Checker:
    return Checker(pool)


@pytest.fixture
def store_folder(tmp_path: Path) -> Path:
    """A store of the test's own: tests must not see each other's findings."""
    return tmp_path / "store"


Eventually = Callable[..., None]


@pytest.fixture
def eventually() -> Eventually:
    """`eventually(condition, seconds)`: wait until the condition holds, and fail if it does not in time. Only a fault
    takes the whole time: it is long, since other programs may use the machine."""

    def wait(condition: Callable[[], object], seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"still not so after {seconds:g} s")
            time.sleep(0.01)

    return wait
