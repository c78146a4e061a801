"""Folders that others wrote: what is listed, what is served, and what is not."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from serving import Serve, Served

from driftline.inductor.lab import Lab


@pytest.fixture(scope="module")
def server(serve: Serve, filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Served:
    top = tmp_path_factory.mktemp("folders")
    lab, maps = top / "lab", top / "maps"
    run = Lab(lab).new_run("capture", "net")
    run.write("index.html", "<p>captured</p>")
    run.finish(graphs=1, kernels=3)
    (maps / "deep").mkdir(parents=True)
    (maps / "summary.md").write_text("# maps")
    (maps / "deep" / "map-exp.png").write_bytes(b"\x89PNG")
    (maps / "coverage.html").write_text("<p>coverage</p>")
    (maps / ".secret.html").write_text("secret")
    (maps / "tool.exe").write_text("binary")
    (top / "outside.html").write_text("outside")
    (maps / "link.html").symlink_to(top / "outside.html")
    return serve(filled, folders=(lab, maps))


def test_runs_of_the_lab_pages_pictures_and_texts_are_listed(server: Served) -> None:
    text = server.client().get("/folders").text
    assert "net: capture" in text and "1 graph, 3 kernels" in text
    assert ">coverage.html</a>" in text and ">summary.md</a>" in text and 'alt="deep/map-exp.png"' in text
    assert "secret" not in text and "tool.exe" not in text and "link.html" not in text


def test_files_are_sandboxed_and_need_no_cookie_but_the_key(server: Served) -> None:
    (address,) = re.findall(r'href="([^"]+/index.html)"', server.client().get("/folders").text)
    answer = httpx.get(server.origin + address)
    assert answer.text == "<p>captured</p>"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts;") and "allow-same-origin" not in policy
    assert "connect-src" not in policy and "default-src 'none'" in policy
    assert answer.headers["referrer-policy"] == "no-referrer"
    other = address.replace(server.settings.folder_key, "x" * len(server.settings.folder_key))
    assert httpx.get(server.origin + other).status_code == 403
    assert server.client().get(other).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        *("../outside.html", "..%2foutside.html", "%2e%2e/outside.html", "..%5coutside.html", "link.html"),
        *(".secret.html", "tool.exe", "deep", "deep/", "nothing.html", "/etc/passwd.html", "coverage.html%00.png"),
        "x" * 5000 + ".md",
    ],
)
def test_nothing_else_is_served(server: Served, path: str) -> None:
    with httpx.Client() as client:
        request = client.build_request("GET", f"{server.origin}/folders/{server.settings.folder_key}/1/")
        request.url = request.url.copy_with(raw_path=request.url.raw_path + path.encode())
        answer = client.send(request)
    assert answer.status_code in (403, 404)
    assert "outside" not in answer.text.replace(path, "") or "There is no page" in answer.text


def test_a_folder_that_is_not_there_is_no_page(server: Served) -> None:
    assert httpx.get(f"{server.origin}/folders/{server.settings.folder_key}/9/a.html").status_code == 404
