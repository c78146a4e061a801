"""The ASGI application: the routes, the pages behind them, and the error pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from driftline.core.errors import DriftlineError, StoreError
from driftline.core.verdict import Status
from driftline.coverage.gather import coverage_of
from driftline.coverage.page import coverage_page
from driftline.report import html
from driftline.report.alike import alike
from driftline.report.gather import compare, gather_store, in_full
from driftline.report.pages import IN_FULL
from driftline.report.view import BugView
from driftline.serve.access import ASSETS, FOLDERS, AccessControl, TooMuchSent, too_large
from driftline.serve.bugs import ORDER_WORDS, BugQuestion, bug_page
from driftline.serve.folders import HEADERS as SANDBOX
from driftline.serve.folders import find_file, view_folder
from driftline.serve.job_pages import JobPages
from driftline.serve.keeper import JobKeeper, UnknownJob
from driftline.serve.kept_page import KeptPage
from driftline.serve.settings import ServeSettings
from driftline.serve.templating import Pages
from driftline.store import Store

_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Site:
    """The pages of one server. Each request opens the store itself, since running jobs write to it."""

    def __init__(self, settings: ServeSettings, pages: Pages) -> None:
        self._settings = settings
        self.pages = pages
        self._report_page = KeptPage(settings.store, self._make_report)
        self._coverage_page = KeptPage(settings.store, self._make_coverage)

    def routes(self) -> list[Route]:
        settings = self._settings
        return [
            Route("/", self._home, methods=["GET"]),
            Route("/bugs", self._bugs, methods=["GET"]),
            Route("/bugs/{name}/script.py", self._script, methods=["GET"]),
            Route("/bugs/{name}", self._bug, methods=["GET"]),
            Route("/report", self._report, methods=["GET"]),
            Route("/coverage", self._coverage, methods=["GET"]),
            Route("/compare", self._compare, methods=["GET"]),
            Route("/folders", self._folders, methods=["GET"]),
            Route(f"{FOLDERS}{settings.folder_key}/{{number:int}}/{{path:path}}", self._file, methods=["GET"]),
            Route(f"{ASSETS}{{name}}", self._asset, methods=["GET"]),
        ]

    def _open(self) -> Store:
        return Store.open(self._settings.store)

    def _home(self, request: Request) -> Response:
        return RedirectResponse("/bugs", HTTPStatus.SEE_OTHER)

    def _asset(self, request: Request) -> Response:
        found = self.pages.asset(request.path_params["name"])
        if found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return found

    # -- bugs --------------------------------------------------------------------------------------------------------

    def _bugs(self, request: Request) -> Response:
        with self._open() as store:
            found = bug_page(store, BugQuestion.of(request.query_params), self._settings.library)
        return self.pages.page(
            "bugs.html",
            listed=found,
            asked=found.asked,
            orders=ORDER_WORDS,
            statuses=[str(s) for s in Status],
            here="bugs",
        )

    def _bug(self, request: Request) -> Response:
        name = request.path_params["name"].removesuffix(".html")  # as the report links it
        with self._open() as store:
            found = self._found(store, name)
            like = "" if found.like else alike(store.bugs()).get(found.id, "")
            gaps = tuple(store.gaps)
        return self.pages.page("one_bug.html", bug=found, like=like, gaps=gaps, here="bugs")

    def _script(self, request: Request) -> Response:
        with self._open() as store:
            found = self._found(store, request.path_params["name"])
        if not found.script:
            raise HTTPException(HTTPStatus.NOT_FOUND, f"{found.id} has no script of its own; replay it instead.")
        held = {"Content-Disposition": f'attachment; filename="{found.id.replace(":", "-")}.py"'}
        return PlainTextResponse(found.script, headers=held)

    def _found(self, store: Store, name: str) -> BugView:
        try:
            return in_full(store, name, self._settings.library)
        except StoreError:
            raise
        except DriftlineError as error:
            raise HTTPException(HTTPStatus.NOT_FOUND, str(error)) from error

    # -- reports -----------------------------------------------------------------------------------------------------

    def _report(self, request: Request) -> Response:
        return HTMLResponse(self._report_page.text(), headers={"Content-Security-Policy": _REPORT_POLICY})

    def _make_report(self) -> str:
        with self._open() as store:
            view = gather_store(store, self._settings.library, full=IN_FULL)
        return html.render(replace(view, pages="bugs"), home="/bugs")

    def _coverage(self, request: Request) -> Response:
        return HTMLResponse(self._coverage_page.text(), headers={"Content-Security-Policy": _REPORT_POLICY})

    def _make_coverage(self) -> str:
        with self._open() as store:
            return coverage_page(coverage_of(store), home="/bugs")

    def _compare(self, request: Request) -> Response:
        others = {str(path): path for path in self._settings.compare}
        wanted, first = request.query_params.get("with", ""), request.query_params.get("first", "other")
        if not wanted:
            return self.pages.page("choose_store.html", others=list(others), here="compare")
        if wanted not in others:
            raise DriftlineError(f"with={wanted}: this server was not started with --compare {wanted}.")
        pair = (others[wanted], self._settings.store)
        before, after = pair if first == "other" else pair[::-1]
        view = compare(before, after, self._settings.library)
        return self.pages.page("compare.html", comparison=view, here="compare")

    # -- folders -----------------------------------------------------------------------------------------------------

    def _folders(self, request: Request) -> Response:
        views = [view_folder(self._settings, number) for number in range(len(self._settings.folders))]
        return self.pages.page("folders.html", folders=views, here="folders")

    def _file(self, request: Request) -> Response:
        found = find_file(self._settings, request.path_params["number"], request.path_params["path"])
        if found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        path, kind = found
        return FileResponse(path, media_type=kind, headers=SANDBOX)

    # -- trouble -----------------------------------------------------------------------------------------------------

    def explain(self, request: Request, error: Exception) -> Response:
        """Return the error page for an exception: one sentence."""
        if isinstance(error, HTTPException):
            status = HTTPStatus(error.status_code)
            usual = error.detail == status.phrase
            told = f"There is no page {request.url.path}." if status == HTTPStatus.NOT_FOUND else status.description
            return self.pages.error(status, told if usual else error.detail)
        if isinstance(error, TooMuchSent):
            return too_large(self.pages, error)
        if isinstance(error, UnknownJob):
            return self.pages.error(HTTPStatus.NOT_FOUND, str(error))
        if isinstance(error, StoreError):
            return self.pages.error(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        if isinstance(error, DriftlineError):
            return self.pages.error(HTTPStatus.BAD_REQUEST, str(error))
        return self.pages.error(
            HTTPStatus.INTERNAL_SERVER_ERROR, "This is a bug in Driftline. The terminal of driftline serve says more."
        )


def application(settings: ServeSettings, ending: Callable[[], bool] = lambda: False) -> ASGIApp:
    """Build the application, with access control in front. `ending` returns True when the server shuts down, which ends
    open streams."""
    pages = Pages(settings)
    site = Site(settings, pages)
    routes, uploads = site.routes(), frozenset[str]()
    lifespan = None
    if not settings.read_only:  # there is no address at all that would change something
        keeper = JobKeeper(settings)
        jobs = JobPages(settings, pages, keeper, ending)
        routes, uploads, lifespan = [*routes, *jobs.routes()], jobs.UPLOADS, jobs.lifespan
    handled: tuple[type[Exception], ...] = (HTTPException, DriftlineError, TooMuchSent, Exception)
    handlers: dict[Any, Callable[[Request, Exception], Response]] = dict.fromkeys(handled, site.explain)
    inner = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    return AccessControl(inner, settings, pages, uploads)
