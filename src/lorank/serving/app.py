"""The HTTP application: routes, who may ask, limits, errors as JSON, counts.

POST /v1/predict, /v1/recommend, /v1/similar, /v1/fold-in     GET /v1/health, /metrics, /openapi.json, /
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lorank
from lorank.errors import InputError
from lorank.linalg.blas import one_blas_thread
from lorank.serving.metrics import Metrics
from lorank.serving.openapi import description
from lorank.serving.page import model_page
from lorank.serving.questions import QUESTIONS, Json, Limits
from lorank.serving.served import Served

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

# How a worker process learns what to serve.
ENVIRONMENT = "LORANK_SERVE"
COOKIE = "lorank-token"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
# Work (multiplications) up to which a question is answered at once; more goes to a thread, so that others are answered
# meanwhile. At most so many of those are under way.
QUICK, WAITING = 2_000_000, 16
# What each line that is asked for and each item of an answer costs besides, as measured.
PER_LINE, PER_ITEM = 20_000, 2_000


@dataclass(frozen=True)
class Service:
    """What is served and to whom.

    Attributes
    ----------
    model : path of a model file or a folder of shards
    token : str or None
        Who asks must show it; None lets everybody in who can reach the address.
    hosts : tuple of str
        Names by which the server may be called (the Host header), so that no other page's name can be pointed at it.
    limits : Limits
    counts : str or None
        File of the counts that the workers share.
    titles : str or None
        Path of a table of titles of the columns.
    """

    model: str
    token: str | None = None
    hosts: tuple[str, ...] = LOOPBACK
    limits: Limits = field(default_factory=Limits)
    counts: str | None = None
    titles: str | None = None

    def to_environment(self) -> None:
        """Leave it to worker processes that are started from here."""
        os.environ[ENVIRONMENT] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Service:
        given = json.loads(os.environ[ENVIRONMENT])
        return cls(**{**given, "hosts": tuple(given["hosts"]), "limits": Limits(**given["limits"])})


class Refused(Exception):
    """A request that is answered by an error: its status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def from_environment() -> Starlette:
    """The application of a worker process."""
    return application(Service.from_environment())


def application(service: Service) -> Starlette:
    """The application; the model is read before it answers anything."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    served = Served(Path(service.model), None if service.titles is None else Path(service.titles))
    metrics = Metrics(None if service.counts is None else Path(service.counts))
    handlers = _Handlers(service, served, metrics)

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        with one_blas_thread():
            task = asyncio.create_task(served.follow(metrics.swap))
            try:
                yield
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    routes = [Route(f"/v1/{name}", handlers.question(name), methods=["POST"]) for name in QUESTIONS]
    routes += [
        Route("/v1/health", handlers.guarded("health", handlers.health, open_to_all=True)),
        Route("/metrics", handlers.guarded("other", handlers.counts)),
        Route("/openapi.json", handlers.guarded("other", handlers.openapi)),
        Route("/", handlers.guarded("page", handlers.page)),
    ]
    app = Starlette(routes=routes, lifespan=running)
    app.router.redirect_slashes = False  # it would lead to whatever name the Host header gives
    for status in (404, 405):
        app.add_exception_handler(status, handlers.nothing_here)
    return app


class _Handlers:
    """What is answered at each address."""

    def __init__(self, service: Service, served: Served, metrics: Metrics) -> None:
        self.service, self.served, self.metrics = service, served, metrics
        self.waiting = asyncio.Semaphore(WAITING)
        self._openapi = description(service.limits, service.token is not None)

    def question(self, name: str) -> Callable[[Request], Any]:
        answer = QUESTIONS[name]

        async def handle(request: Request) -> Response:
            given = await self._body(request)
            model = self.served.model
            limits = self.service.limits

            def respond() -> Response:
                return _json(answer(model, given, limits))

            if _work(name, given, model.shape, model.factors.k) <= QUICK:
                response = respond()
            else:
                response = await self._in_thread(respond)
            self.metrics.rows(_count(given))
            return response

        return self.guarded(name, handle)

    async def _in_thread(self, respond: Callable[[], Response]) -> Response:
        """The answer of a large question. One that takes too long is refused, and counts as under way until it ends."""
        if self.waiting.locked():
            raise Refused(503, "Too many large requests are under way; ask again in a moment.")
        await self.waiting.acquire()
        task = asyncio.create_task(asyncio.to_thread(respond))
        task.add_done_callback(self._one_less)
        seconds = self.service.limits.seconds
        try:
            return await asyncio.wait_for(asyncio.shield(task), seconds)
        except TimeoutError:
            raise Refused(503, f"The answer takes more than {seconds:g} s; ask for less.") from None

    def _one_less(self, task: asyncio.Task[Response]) -> None:
        self.waiting.release()
        if not task.cancelled():
            task.exception()  # of a request that was given up nobody else looks at it

    def guarded(
        self, name: str, handle: Callable[[Request], Any], open_to_all: bool = False
    ) -> Callable[[Request], Any]:
        """A handler behind the checks of host and token, whose errors are one sentence of JSON, and counted."""

        async def run(request: Request) -> Response:
            started, status = time.perf_counter(), 500
            try:
                self._admit(request, open_to_all)
                response: Response = await handle(request)
                status = response.status_code
                return response
            except Refused as refused:
                status = refused.status
                return _error(status, str(refused))
            except (InputError, ValueError, OverflowError) as error:
                status = 400
                return _error(status, " ".join(str(error).split()))
            except MemoryError:
                status = 503
                return _error(status, "There is not enough memory for this request; ask for less.")
            finally:
                self.metrics.request(name, status, time.perf_counter() - started)

        return run

    def _admit(self, request: Request, open_to_all: bool) -> None:
        host = request.headers.get("host", "").rsplit(":", 1)[0].strip("[]").lower()
        if "*" not in self.service.hosts and host not in self.service.hosts:
            raise Refused(400, f"This server does not go by the name {host!r}; allow it by --allow-host.")
        token = self.service.token
        if token is None or open_to_all:
            return
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        shown = shown or request.cookies.get(COOKIE, "") or request.query_params.get("token", "")
        if not hmac.compare_digest(shown.encode(), token.encode()):
            raise Refused(401, "Show the server's token: Authorization: Bearer TOKEN, or /?token=TOKEN in a browser.")

    async def _body(self, request: Request) -> Any:
        limit = self.service.limits.body
        # A form of another site cannot send this type without the browser asking us first.
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            raise Refused(415, "Send JSON, with Content-Type: application/json.")
        body, more, seconds = b"", True, self.service.limits.seconds
        try:
            async with asyncio.timeout(seconds):
                while more:
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "The connection ended before the body did.")
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > limit:
                        raise Refused(413, f"The body has more than {limit} bytes; ask in several requests.")
        except TimeoutError:
            raise Refused(408, f"The body did not arrive within {seconds:g} s.") from None
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise Refused(400, "The body is not JSON.") from None

    async def health(self, request: Request) -> Response:
        served = self.served
        m, n = served.model.shape
        facts = {"status": "ok", "model": served.version, "rows": m, "columns": n, "since": round(served.since, 3)}
        return _json({**facts, "lorank": lorank.__version__})

    async def counts(self, request: Request) -> Response:
        from starlette.responses import PlainTextResponse

        return PlainTextResponse(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        return _json(self._openapi)

    async def page(self, request: Request) -> Response:
        from starlette.responses import HTMLResponse, RedirectResponse

        if self.service.token is not None and "token" in request.query_params:
            # The address bar, the history and the Referer header are no place for a token.
            answer: Response = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, self.service.token, httponly=True, samesite="strict")
            return answer
        return HTMLResponse(await asyncio.to_thread(model_page, self.served.model), headers=PAGE_HEADERS)

    async def nothing_here(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        self.metrics.request("other", status, 0.0)
        method = "POST" if request.url.path.removeprefix("/v1/") in QUESTIONS else "GET"
        if status != 405:
            return _error(status, "There is nothing here; see /openapi.json.")
        response = _error(status, f"{request.url.path} answers {method}.")
        response.headers["Allow"] = method
        return response


# The page runs only its own script, sends nothing anywhere, and is shown in no other page.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def _count(given: Any) -> int:
    """Rows, columns, pairs or entries that a request names."""
    if not isinstance(given, dict):
        return 1
    return max((len(part) for part in given.values() if isinstance(part, list)), default=1)


def _work(name: str, given: Any, shape: tuple[int, int], k: int) -> int:
    """Multiplications that an answer costs, about, with what it takes to find the lines and to write the items."""
    if name == "predict" or not isinstance(given, dict):
        return _count(given) * (k + PER_ITEM)
    n = given.get("n", 10)
    items = min(n, max(shape)) if isinstance(n, int) else 0
    return _count(given) * (max(shape) * max(k, 1) + PER_LINE + items * PER_ITEM)


def _json(content: Json, status: int = 200) -> Response:
    from starlette.responses import Response

    text = json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(text.encode("utf-8", "replace"), status, headers, "application/json")


def _error(status: int, sentence: str) -> Response:
    response = _json({"error": sentence}, status)
    if status in (408, 413):  # the rest of the body would be taken for the next request
        response.headers["Connection"] = "close"
    return response
