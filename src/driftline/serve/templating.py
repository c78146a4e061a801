"""Renders pages from the report's templates and those of the server."""

from __future__ import annotations

from http import HTTPStatus
from importlib import resources
from typing import Any

from starlette.responses import HTMLResponse, Response

import driftline
from driftline.report.html import page_environment
from driftline.serve.settings import ServeSettings

_STATIC = {"page.js": "text/javascript", "page.css": "text/css"}


class Pages:
    """Renders the pages of one server."""

    def __init__(self, settings: ServeSettings) -> None:
        self._environment = page_environment("driftline.serve", layout="serve.html")
        self._environment.globals |= {"server": settings, "driftline_version": driftline.__version__, "here": ""}
        files = resources.files("driftline.serve") / "static"
        self._assets = {name: (kind, (files / name).read_text("utf-8")) for name, kind in _STATIC.items()}
        self._assets["style.css"] = ("text/css", self._environment.get_template("style.css").render())

    def text(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(**values)

    def page(self, template: str, status: int = HTTPStatus.OK, **values: Any) -> Response:
        return HTMLResponse(self.text(template, **values), status)

    def error(self, status: HTTPStatus, sentence: str, *, bare: bool = False) -> Response:
        """Return a page with one sentence about an error. `bare` leaves out links, for readers without access."""
        return self.page("error.html", status, problem=status, sentence=sentence, bare=bare)

    def asset(self, name: str) -> Response | None:
        kind, text = self._assets.get(name, ("", ""))
        return Response(text, media_type=kind, headers={"Cache-Control": "no-cache"}) if kind else None
