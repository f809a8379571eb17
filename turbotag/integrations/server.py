"""The web server: a page, a JSON interface, and the verbs of UDPipe's REST service.

A request is read, checked and answered here; its work runs in a pool of threads, on models that the
process holds once. Texts of requests are neither written to files nor logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import turbotag
from turbotag.errors import TurbotagError, UsageError
from turbotag.integrations import forms, udpipe
from turbotag.integrations.openapi import description
from turbotag.integrations.service import Deadline, Service, TooLong
from turbotag.models.pipeline import RAW
from turbotag.report.draw_svg import HUES, LIGHT, rules

POLICY = (  # the page may load nothing from other hosts
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
BACKLOG = 1024  # connections that may wait to be taken
DISCARDED = 64_000_000  # bytes that are read beyond the limit, so that a client sees the answer
CLOSED = 499  # the client went away; nobody reads the answer


@dataclass(frozen=True)
class Limits:
    """What a request may cost: bytes of its body, seconds of its work; and how many requests may be
    worked on (threads), and wait, at the same time."""

    bytes: int = 1_000_000
    seconds: float = 30.0
    threads: int = 2
    waiting: int = 100


Log = Callable[[str], object]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# ---- Work ----------------------------------------------------------------------------------------


class Work:
    """Runs requests in threads, within limits."""

    def __init__(self, limits: Limits):
        self.limits, self.running = limits, 0
        self.pool = ThreadPoolExecutor(limits.threads, "turbotag")

    async def run(self, work: Callable[[Deadline], Any]) -> Any:
        """Run `work` in a thread and return its result; HTTPException if too many requests wait, or
        if it takes too long."""
        if self.running >= self.limits.threads + self.limits.waiting:
            raise HTTPException(
                503,
                f"{self.running} requests are waiting: try again in a moment",
                {"retry-after": "2"},
            )
        self.running += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self.pool, partial(self._begin, work))
        except TooLong:
            seconds = f"{self.limits.seconds:g}"
            raise HTTPException(503, f"it took longer than {seconds} s: send less text") from None
        finally:
            self.running -= 1

    def _begin(self, work: Callable[[Deadline], Any]) -> Any:
        """Start the clock: the time that a request waits for a thread does not count."""
        return work(Deadline(time.monotonic() + self.limits.seconds))

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)


async def body(request: Request, limits: Limits) -> bytes:
    """The body of a request, if it is not too large and comes in time. A body that is too large is
    read to its end and thrown away: most clients read no answer before they have sent all."""
    data, size = bytearray(), 0
    told = int(request.headers.get("content-length", "0"))  # uvicorn refuses what is no number
    try:
        with anyio.fail_after(limits.seconds):
            async for piece in request.stream():
                size += len(piece)
                if size <= limits.bytes:
                    data += piece
                if max(size, told) > limits.bytes + DISCARDED:
                    break
    except TimeoutError:
        raise HTTPException(408, "the request did not arrive in time") from None
    except ClientDisconnect:
        raise HTTPException(CLOSED, "the client went away") from None
    if max(size, told) > limits.bytes:
        raise HTTPException(413, f"the request is larger than {limits.bytes:,} bytes")
    return bytes(data)


def given(data: bytes) -> dict[str, Any]:
    """The JSON object of a body."""
    try:
        found = json.loads(data)
    except json.JSONDecodeError as e:
        raise HTTPException(400, f"the body is not JSON: {e}") from None
    except UnicodeDecodeError:
        raise HTTPException(400, "the body is not JSON: it is no text in UTF-8") from None
    except ValueError:
        raise HTTPException(400, "the body has a number that is too long") from None
    except RecursionError:
        raise HTTPException(400, "the body is not JSON that can be read: it is too deep") from None
    if not isinstance(found, dict):
        raise HTTPException(400, 'the body must be an object such as {"text": "Ada sings."}')
    return found


def field(found: dict[str, Any], name: str, kind: type, otherwise: Any = ...) -> Any:
    """A field of a request, which must be of this type; without `otherwise` it is required."""
    value = found.get(name, otherwise)
    if value is ...:
        raise HTTPException(400, f"the field {name!r} is missing")
    if value is not otherwise and (
        not isinstance(value, kind) or isinstance(value, bool) != (kind is bool)
    ):
        raise HTTPException(400, f"the field {name!r} must be {_KINDS[kind]}")
    return value


_KINDS = {str: "a string", int: "a whole number", bool: "true or false"}


# ---- The application -----------------------------------------------------------------------------


def app(service: Service, limits: Limits | None = None, log: Log = say) -> ASGIApp:
    """The application that answers for the models of a service."""
    limits = limits or Limits()
    work = Work(limits)

    async def models(request: Request) -> Response:
        return JSONResponse({"models": service.cards(), "default_model": service.default})

    async def annotate(request: Request) -> Response:
        found = given(await body(request, limits))
        text, model = field(found, "text", str), field(found, "model", str, None)
        draw, format = field(found, "draw", bool, False), field(found, "format", str, RAW)
        if format not in (RAW, "conllu"):
            raise HTTPException(400, f"the format must be raw or conllu, not {format!r:.40}")
        return JSONResponse(await work.run(partial(service.annotate, model, text, format, draw)))

    async def explain(request: Request) -> Response:
        found = given(await body(request, limits))
        against = found.get("against")
        asked = (
            field(found, "model", str, None),
            field(found, "conllu", str),
            field(found, "word", int),
            None if against is None else str(against),
            field(found, "top", int, 20),
        )
        return JSONResponse(await work.run(partial(service.explain, *asked)))

    async def udpipe_models(request: Request) -> Response:
        return JSONResponse(udpipe.models(service))

    async def udpipe_process(request: Request) -> Response:
        data = await body(request, limits)
        asked = forms.fields(request.url.query, request.headers.get("content-type", ""), data)
        return JSONResponse(await work.run(partial(udpipe.process, service, asked)))

    async def health(request: Request) -> Response:
        return JSONResponse({"version": turbotag.__version__, "running": work.running})

    async def schema(request: Request) -> Response:
        return JSONResponse(description(limits.bytes, limits.seconds))

    async def page(request: Request) -> Response:
        name = request.url.path.strip("/") or "index.html"
        content, kind = FILES[name]()
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    @contextlib.asynccontextmanager
    async def lifespan(made: Starlette) -> AsyncIterator[None]:
        yield
        work.close()

    routes = [
        *(Route(path, page) for path in ("/", "/page.css", "/page.js", "/drawing.css")),
        Route("/api/models", models),
        Route("/api/annotate", annotate, methods=["POST"]),
        Route("/api/explain", explain, methods=["POST"]),
        Route("/api/health", health),
        Route("/openapi.json", schema),
        Route("/models", udpipe_models, methods=["GET", "POST"]),
        Route("/process", udpipe_process, methods=["GET", "POST"]),
    ]
    made = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: _refused,
            TurbotagError: _bad_data,
            forms.FormError: _bad_data,
            Exception: _internal,
        },
        lifespan=lifespan,
    )
    return Logged(made, log)


async def _refused(request: Request, e: Exception) -> Response:
    assert isinstance(e, HTTPException)
    return _error(request, e.status_code, e.detail, e.headers)


async def _bad_data(request: Request, e: Exception) -> Response:
    return _error(request, 400, str(e))


async def _internal(request: Request, e: Exception) -> Response:
    return _error(request, 500, f"internal error, please report it: {type(e).__name__}")


def _error(request: Request, status: int, told: str, headers: Any = None) -> Response:
    """An error in one sentence: as text for clients of UDPipe, who expect that, else as JSON."""
    if request.url.path in ("/process", "/models"):
        return PlainTextResponse(told + "\n", status, headers)
    return JSONResponse({"error": told}, status, headers)


def _file(name: str, kind: str) -> tuple[bytes, str]:
    return (resources.files("turbotag.integrations") / "page" / name).read_bytes(), kind


def _drawing_style() -> tuple[bytes, str]:
    """The style of pictures, in the colours of the page."""
    marks = "".join(f".t{k}{{--hue:{hue}}}\n" for k, hue in enumerate(HUES))
    return (rules({name: f"var(--{name})" for name in LIGHT}) + marks).encode(), "text/css"


FILES: dict[str, Callable[[], tuple[bytes, str]]] = {
    "index.html": partial(_file, "index.html", "text/html"),
    "page.css": partial(_file, "page.css", "text/css"),
    "page.js": partial(_file, "page.js", "text/javascript"),
    "drawing.css": _drawing_style,
}


class Logged:
    """Logs a line for each request, without its content, and adds HEADERS to each answer."""

    def __init__(self, app: ASGIApp, log: Log):
        self.app, self.log = app, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, sent = time.perf_counter(), CLOSED, 0

        async def answer(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(HEADERS)
            else:
                sent += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, answer)
        except Exception as e:  # answered already: see _internal
            self.log(f"error {type(e).__name__}: {e}")
        finally:
            size = Headers(scope=scope).get("content-length", "0")
            took = 1000.0 * (time.perf_counter() - began)
            client = (scope.get("client") or ("-",))[0]
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
            self.log(
                f"{stamp} {client} {scope['method']} {scope['path']!r:.80} {status} "
                f"{size} B in, {sent} B out, {took:.0f} ms"
            )


# ---- The process ---------------------------------------------------------------------------------


def run(models: list[str], host: str, port: int, limits: Limits, log: Log = say) -> None:
    """Serve models until the process is told to end; requests at work are finished first."""
    import uvicorn

    from turbotag.integrations.connections import Connection

    service = Service.load(models)
    service.warm()
    bound = _bind(host, port)
    address = "[{}]:{}" if ":" in host else "{}:{}"
    shown = address.format(*bound.getsockname()[:2])
    log(f"serving {', '.join(service.models)} at http://{shown} (Ctrl-C ends)")
    settings = uvicorn.Config(
        app(service, limits, log),
        http=Connection,
        log_level="error",
        access_log=False,
        lifespan="on",
        backlog=BACKLOG,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=int(limits.seconds) + 5,
        h11_max_incomplete_event_size=1 << 16,
        server_header=False,
    )
    uvicorn.Server(settings).run(sockets=[bound])


def _bind(host: str, port: int) -> socket.socket:
    """A socket that listens, or an error that says why there is none."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[
            0
        ]
        # asyncio sets TCP_NODELAY only on sockets whose protocol is given as TCP; on others, every
        # second answer on a connection waits 40 ms for an acknowledgement
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        bound.listen(BACKLOG)
    except OSError as e:
        told = (e.strerror or str(e)).lower()
        raise UsageError(f"cannot listen at {host}, port {port}: {told}") from None
    return bound
