"""Jobs: the pages that start, show, stop and resume them, and the streams that keep an open page up to date.

A stream (server-sent events) carries the same HTML as the page, made by the same template, whenever it has changed. So
a page says the same with a script and, reloaded, without one.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from driftline.core.errors import DriftlineError
from driftline.generate import usual_generators
from driftline.inputs.make import STRATEGIES
from driftline.serve.forms import read_form
from driftline.serve.keeper import JobKeeper
from driftline.serve.settings import ServeSettings
from driftline.serve.templating import Pages

MOST = 100  # jobs that are listed
_EVERY = 0.4  # seconds between two updates of a stream
_ADVANCE = 0.5  # seconds between two looks for cores that have become free
EXAMPLE = """import torch


def program():
    return (lambda x: x * 0), (torch.tensor([float("nan"), float("inf"), 1.0]),)
"""


class JobPages:
    """The request handlers for the addresses below /jobs."""

    UPLOADS = frozenset({"/jobs/new/check"})

    def __init__(self, settings: ServeSettings, pages: Pages, keeper: JobKeeper, ending: Callable[[], bool]) -> None:
        self._settings, self._pages, self._keeper, self._ending = settings, pages, keeper, ending

    def routes(self) -> list[Route]:
        return [
            Route("/jobs", self._all, methods=["GET"]),
            Route("/jobs/stream", self._stream_all, methods=["GET"]),
            Route("/jobs/new/{kind}", self._start, methods=["POST"]),
            Route("/jobs/{number:int}", self._one, methods=["GET"]),
            Route("/jobs/{number:int}/stream", self._stream_one, methods=["GET"]),
            Route("/jobs/{number:int}/{action}", self._act, methods=["POST"]),
        ]

    @contextlib.asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """Start waiting jobs while the server runs; when it ends, stop the running ones."""
        watching = asyncio.create_task(self._advance())
        try:
            yield
        finally:
            watching.cancel()
            await run_in_threadpool(self._keeper.close, lambda line: print(f"driftline: {line}", file=sys.stderr))

    async def _advance(self) -> None:
        while True:
            await run_in_threadpool(self._keeper.advance)
            await asyncio.sleep(_ADVANCE)

    # -- pages -------------------------------------------------------------------------------------------------------

    def _all(self, request: Request) -> Response:
        return self._pages.page(
            "jobs.html",
            jobs=self._keeper.jobs(MOST),
            generators=usual_generators(),
            strategies=STRATEGIES,
            example=EXAMPLE,
            here="jobs",
        )

    def _one(self, request: Request) -> Response:
        return self._pages.page("job.html", job=self._keeper.job(request.path_params["number"]), here="jobs")

    async def _start(self, request: Request) -> Response:
        try:
            async with request.form(max_files=1, max_fields=40) as form:
                number = await run_in_threadpool(self._started, request.path_params["kind"], form)
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody is there to read it
        return RedirectResponse(f"/jobs/{number}", HTTPStatus.SEE_OTHER)

    def _started(self, kind: str, form: Any) -> int:
        order, fill = read_form(kind, form, self._settings)
        return self._keeper.start(order, fill)

    def _act(self, request: Request) -> Response:
        number, action = request.path_params["number"], request.path_params["action"]
        if action == "stop":
            self._keeper.stop(number)
        elif action == "resume":
            self._keeper.resume(number)
        elif action == "again":
            number = self._keeper.again(number)
        elif action == "remove":
            self._keeper.remove(number)
            return RedirectResponse("/jobs", HTTPStatus.SEE_OTHER)
        else:
            return self._pages.error(HTTPStatus.NOT_FOUND, f"There is no page {request.url.path}.")
        return RedirectResponse(f"/jobs/{number}", HTTPStatus.SEE_OTHER)

    # -- streams -----------------------------------------------------------------------------------------------------

    async def _stream_all(self, request: Request) -> Response:
        return self._streamed(lambda: (self._pages.text("job_rows.html", jobs=self._keeper.jobs(MOST)), False))

    async def _stream_one(self, request: Request) -> Response:
        number = request.path_params["number"]

        def look() -> tuple[str, bool]:
            job = self._keeper.job(number)
            return self._pages.text("job_state.html", job=job), job.over

        await run_in_threadpool(look)  # a missing job becomes an error page, not a stream
        return self._streamed(look)

    def _streamed(self, look: Callable[[], tuple[str, bool]]) -> Response:
        """Return a stream that sends the text of `look` whenever it has changed, until `look` returns True (over)."""

        async def changes() -> AsyncIterator[str]:
            shown, over = "", False
            while not over and not self._ending():
                try:
                    text, over = await run_in_threadpool(look)
                except DriftlineError:  # it was removed, or the store is gone: a reload says so
                    return
                if text != shown:
                    shown = text
                    yield "".join(f"data: {line}\n" for line in text.split("\n")) + "\n"
                await asyncio.sleep(_EVERY)
            if over:
                yield "event: over\ndata:\n\n"

        return StreamingResponse(changes(), media_type="text/event-stream")
