"""A hostile repository: settings files and links in a project that somebody cloned."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from driftline.cli.settings import find_settings
from driftline.core.errors import DriftlineError
from driftline.llm.allowance import Allowance
from driftline.llm.settings import llm_settings
from driftline.store import Store
from driftline.workbench import hunting
from hostile.attack import Attack, both_ways, replacing
from typed import typed

KEY = "sk-of-the-user"
HUNT = ("hunt", "--generators", "llm", "--targets", "inductor", "--programs", "1", "--store", "s")


@pytest.fixture(autouse=True)
def _user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with a key, and without settings of their own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("driftline.core.secrets._taken", {})
    for name in ("OPENAI_BASE_URL", "DRIFTLINE_LLM_MODEL", "DRIFTLINE_STORE"):
        monkeypatch.delenv(name, raising=False)


@contextlib.contextmanager
def stranger() -> Iterator[tuple[str, list[str]]]:
    """A server that writes down the keys that are sent to it."""
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers.get("Authorization", ""))
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", keys
    finally:
        server.shutdown()
        server.server_close()


def _steal(file: str, table: str, *, folder: str = ".", variable: str = "OPENAI_API_KEY") -> Callable[[Path], str]:
    """Clones a project whose settings name the server of a stranger, and hunts there."""

    def run(project: Path) -> str:
        with stranger() as (url, keys), pytest.MonkeyPatch.context() as user:
            (project / file).write_text(table.format(url=url))
            (project / folder).mkdir(exist_ok=True)
            user.chdir(project / folder)
            user.setenv(variable, KEY)
            typed(*HUNT)
            return "the key was sent" if any(KEY in key for key in keys) else ""

    return run


ENDPOINT = '[llm]\nbase_url = "{url}"\nmodel = "m"\n'
OTHER_KEY = ENDPOINT + 'api_key_variable = "PAYMENTS_API_KEY"\n'
SHARED = '[tool.driftline.llm]\nbase_url = "{url}"\nmodel = "m"\n'
follows_the_project = replacing("driftline.cli.settings.OF_THE_ACCOUNT", ())


def spends_as_stored(weak: pytest.MonkeyPatch) -> None:
    weak.setattr("driftline.workbench.hunting.stored_allowance", Allowance)


def _free_prices(project: Path) -> str:
    """Makes answers look free, so that `--llm-cost` is no limit."""
    (project / "driftline.toml").write_text('[llm]\nmodel = "m"\nprice_in = 0.0\nprice_out = 0.0\n')
    found = llm_settings(find_settings(project).llm, {"OPENAI_BASE_URL": "http://127.0.0.1:1"})
    return "answers are free" if found.priced else ""


def _relative_config(project: Path) -> str:
    """A variable with a relative folder, which would make a file of the project the user's own."""
    own = project / "conf" / "driftline"
    own.mkdir(parents=True)
    with stranger() as (url, keys), pytest.MonkeyPatch.context() as user:
        (own / "config.toml").write_text(ENDPOINT.format(url=url))
        user.setenv("HOME", str(project / "home"))
        user.setenv("XDG_CONFIG_HOME", "conf")
        user.setenv("OPENAI_API_KEY", KEY)
        user.chdir(project)
        typed(*HUNT)
        return "the key was sent" if any(KEY in key for key in keys) else ""


def _leave(key: str, folder: Callable[[Path], str]) -> Callable[[Path], str]:
    """Names a folder outside the project."""

    def run(project: Path) -> str:
        inner = project / "clone"
        inner.mkdir()
        text = folder(inner)
        (inner / "driftline.toml").write_text(f"{key} = {[text] if key == 'causes' else text!r}\n")
        settings = find_settings(inner)
        named = settings.causes if key == "causes" else (settings.store,) if settings.store else ()
        outside = [str(place) for place in named if not place.resolve().is_relative_to(inner.resolve())]
        assert outside or settings.ignored, "a setting that is ignored is reported"
        return ", ".join(outside)

    return run


def _link(project: Path) -> str:
    (project / "innocent").symlink_to(project.parent, target_is_directory=True)
    return "innocent/kept"


def _store_behind_a_link(project: Path) -> str:
    """The default store is a link in the project: a store would be made in the folder that a stranger chose."""
    victim = project / "victim"
    clone = project / "clone"
    victim.mkdir()
    clone.mkdir()
    (clone / ".driftline").symlink_to(victim)
    with pytest.MonkeyPatch.context() as user:
        user.chdir(clone)
        done = typed("bugs", "list")
    return "" if "is a link to" in done.stderr and done.returncode == 2 else "the link was followed"


def _planted_above(project: Path) -> str:
    """Another user puts settings into a shared folder above the project."""
    if os.geteuid():
        pytest.skip("only root can give a file away")
    (project / "driftline.toml").write_text('targets = ["planted"]\n')
    os.chown(project / "driftline.toml", 4711, -1)
    with pytest.MonkeyPatch.context() as user:
        user.setattr("os.geteuid", lambda: 1000)
        return find_settings(project).targets or ""


def _tokens_of_a_store(tokens: int | None) -> Callable[[Path], str]:
    """A stranger's store holds an unfinished hunt that may spend as much as it likes."""

    def run(place: Path) -> str:
        try:
            allowed = hunting.stored_allowance(tokens, None)
        except DriftlineError as error:
            assert "--llm-tokens" in str(error)
            return ""
        return f"{allowed.words() or 'any number of tokens'} would be spent"

    return run


def _hidden_in_json(place: Path) -> str:
    """Settings that were ignored, of which a program that reads --json hears nothing."""
    (place / "driftline.toml").write_text('store = "/elsewhere"\n')
    with pytest.MonkeyPatch.context() as user:
        user.chdir(place)
        Store.create(place / ".driftline").close()
        done = typed("bugs", "list", "--json")
    told = json.loads(done.stdout)
    return "" if any("/elsewhere" in one for one in told.get("ignored_settings", ())) else "nothing is said of it"


ATTACKS = [
    Attack("tokens-of-a-stored-hunt", _tokens_of_a_store(10**9), spends_as_stored),
    Attack("tokens-without-limit", _tokens_of_a_store(None), spends_as_stored),
    Attack("ignored-without-a-word", _hidden_in_json, replacing("driftline.cli.common.IGNORED_SETTINGS", "nothing")),
    Attack("endpoint-in-driftline-toml", _steal("driftline.toml", ENDPOINT), follows_the_project),
    Attack("another-key", _steal("driftline.toml", OTHER_KEY, variable="PAYMENTS_API_KEY"), follows_the_project),
    Attack("endpoint-in-pyproject", _steal("pyproject.toml", SHARED), follows_the_project),
    Attack("endpoint-in-a-folder-above", _steal("driftline.toml", ENDPOINT, folder="deep"), follows_the_project),
    Attack("free-answers", _free_prices, follows_the_project),
    Attack(
        "relative-config-home",
        _relative_config,
        replacing(
            "driftline.cli.user_settings.user_settings_file",
            lambda: Path(os.environ["XDG_CONFIG_HOME"]) / "driftline" / "config.toml",
        ),
    ),
    *(
        Attack(
            f"{key}-{name}",
            _leave(key, folder),
            replacing("driftline.cli.settings._below", lambda path, key, text: path.parent / Path(text).expanduser()),
        )
        for key in ("store", "causes")
        for name, folder in {
            "absolute": lambda project: str(project.parent / "elsewhere"),
            "dots": lambda project: "../elsewhere",
            "home": lambda project: "~/elsewhere",
            "link": _link,
        }.items()
    ),
    Attack(
        "store-behind-a-link", _store_behind_a_link, replacing("driftline.cli.common._own_folder", lambda store: store)
    ),
    Attack(
        "settings-of-another-user",
        _planted_above,
        replacing("driftline.cli.settings._of_another_user", lambda path: False),
    ),
]
test_attack_fails = both_ways(ATTACKS)


def test_ignored_settings_are_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "driftline.toml").write_text(
        'store = "/elsewhere"\n[llm]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n'
    )
    monkeypatch.chdir(tmp_path)
    said = typed("hunt", "--generators", "llm", "--targets", "inductor", "--programs", "1").stderr
    assert said.count("store = '/elsewhere' leads out of") == 1 and "--store" in said
    assert said.count("llm.base_url ignored") == 1 and str(tmp_path / "config" / "driftline" / "config.toml") in said


def test_the_user_may_name_the_endpoint_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "config" / "driftline"
    own.mkdir(parents=True)
    (tmp_path / "driftline.toml").write_text('[llm]\nmodel = "of-the-project"\n')
    monkeypatch.setenv("MY_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    with stranger() as (url, keys):
        (own / "config.toml").write_text(f'[llm]\nbase_url = "{url}"\napi_key_variable = "MY_API_KEY"\n')
        said = typed(*HUNT).stderr
    assert any(KEY in key for key in keys) and "ignored" not in said


def test_plugins_have_no_place_in_a_project_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "driftline.toml").write_text('plugin = ["evil.py"]\n')
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    done = typed("bugs", "list")
    assert done.returncode == 2 and "no setting 'plugin'" in done.stderr and not (tmp_path / "ran").exists()


def test_a_resumed_hunt_keeps_a_smaller_allowance() -> None:
    assert hunting.stored_allowance(5000, 0.5) == Allowance(5000, 0.5)


def test_a_settings_file_is_no_larger_than_settings(tmp_path: Path) -> None:
    """A sparse file of 64 GiB would fill the memory."""
    with (tmp_path / "driftline.toml").open("wb") as file:
        file.truncate(64 << 30)
    with pytest.raises(DriftlineError, match=r"has more than 1024 KiB"):
        find_settings(tmp_path)


def test_a_huge_pyproject_is_taken_to_have_no_settings(tmp_path: Path) -> None:
    with (tmp_path / "pyproject.toml").open("wb") as file:
        file.write(b"[tool.driftline]\ntimeout = 9\n")
        file.truncate(64 << 30)
    assert find_settings(tmp_path).timeout is None


@pytest.mark.parametrize("timeout", ["1e9", "604801", "0.0", "inf", "nan", "true"])
def test_a_project_bounds_the_time_of_a_target(tmp_path: Path, timeout: str) -> None:
    (tmp_path / "driftline.toml").write_text(f"timeout = {timeout}\n")
    with pytest.raises(DriftlineError, match=r"from 0\.1 to 604800"):
        find_settings(tmp_path)
