"""The gate of a server, before its routes: names and origins of requests, time limits, keys, access log, metrics.

It is pure ASGI, so that a client that leaves is seen by the routes.
"""

import asyncio
import ipaddress
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

from pellucid.errors import format_value
from pellucid.serve.errors import RequestError, error_body, find_interface, find_path
from pellucid.serve.keys import Keys
from pellucid.serve.limits import ServerLimits
from pellucid.serve.metrics import Metrics

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

access_log: logging.Logger = logging.getLogger("pellucid.access")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""The names of this machine, which no other machine can take."""
OPEN = ("/", "/health", "/ready", "/metrics")
"""The addresses that require no key."""
SAFE = ("GET", "HEAD", "OPTIONS")


class Gate:
    """Passes requests to an application.

    Args:
        application: the routes.
        templates: the template of each endpoint of the routes, the label of logs and metrics.
        hosts: the names by which the server is addressed; None: any.
        origins: the origins of other web pages that may call it.
    """

    def __init__(
        self,
        application: Application,
        templates: Mapping[Any, str],
        metrics: Metrics,
        limits: ServerLimits,
        keys: Keys,
        hosts: Sequence[str] | None,
        origins: Sequence[str],
    ) -> None:
        self._application = application
        self._templates = templates
        self._metrics = metrics
        self._limits = limits
        self._keys = keys
        self._hosts = None if hosts is None else {name.lower() for name in hosts}
        self._origins = {origin.lower().rstrip("/") for origin in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._application(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1003})
            return
        began, status = time.monotonic(), 0
        headers = _Headers(scope)
        origin = headers.get("origin").lower().rstrip("/")
        added = [(b"x-content-type-options", b"nosniff")]
        if origin in self._origins:
            added += [(b"access-control-allow-origin", origin.encode()), (b"vary", b"origin")]

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        with self._metrics.measure():
            try:
                if origin in self._origins and scope["method"] == "OPTIONS":
                    await _send_preflight(answer, headers)
                else:
                    self._check(scope, headers, origin)
                    await self._application(scope, self._limit_time(receive), answer)
            except RequestError as error:
                await send_error(answer, find_path(scope), error)
            finally:
                route = self._templates.get(scope.get("endpoint"), "other")
                seconds = time.monotonic() - began
                self._metrics.count(route, scope["method"], status, seconds)
                access_log.info("%s %s %d %.0f ms", _method(scope), route, status, 1000 * seconds)

    def _check(self, scope: Scope, headers: "_Headers", origin: str) -> None:
        """Raises RequestError for a request that is refused whatever its route."""
        close = {"Connection": "close"}
        if headers.has("content-length") and headers.has("transfer-encoding"):
            raise RequestError(400, "a request has Content-Length or Transfer-Encoding, not both", headers=close)
        host = headers.get("host").lower()
        if self._hosts is not None and _without_port(host) not in self._hosts:
            raise RequestError(
                421,
                f"the name {format_value(host)} is not one of this server; its operator can allow it",
                headers=close,
            )
        is_own = origin in self._origins or origin in (f"http://{host}", f"https://{host}")
        if origin and scope["method"] not in SAFE and not is_own:
            raise RequestError(
                403, f"pages of {format_value(origin)} may not call this server; its operator can allow it"
            )
        path = find_path(scope)
        if self._keys and scope["method"] != "OPTIONS" and path not in OPEN:
            self._check_key(path, headers.get("authorization"))

    def _check_key(self, path: str, authorization: str) -> None:
        """Raises RequestError for a wrong key of DeepL's and OpenAI's interface; LibreTranslate's is in the body."""
        scheme, _, key = authorization.partition(" ")
        interface = find_interface(path)
        if interface == "deepl" and not (scheme.lower() == "deepl-auth-key" and self._keys.has(key.strip())):
            raise RequestError(403, "Authorization failed: send the header `Authorization: DeepL-Auth-Key KEY`")
        if interface == "openai" and not (scheme.lower() == "bearer" and self._keys.has(key.strip())):
            raise RequestError(401, "Incorrect API key: send the header `Authorization: Bearer KEY`")

    def _limit_time(self, receive: Receive) -> Receive:
        """Returns `receive`, which raises RequestError if the body is not complete in time."""
        ends = asyncio.get_running_loop().time() + self._limits.body_seconds
        complete = False

        async def limited() -> MutableMapping[str, Any]:
            nonlocal complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(ends):
                    message = await receive()
            except TimeoutError:
                raise RequestError(
                    408, "the request was not complete in time", headers={"Connection": "close"}
                ) from None
            complete = not message.get("more_body", False)
            return message

        return limited


class _Headers:
    def __init__(self, scope: Scope) -> None:
        self._found: dict[str, str] = {}
        for name, value in scope["headers"]:
            self._found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def get(self, name: str) -> str:
        return self._found.get(name, "")

    def has(self, name: str) -> bool:
        return name in self._found


def _without_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return name if name and port.isdecimal() and (name.endswith("]") or ":" not in name) else host


def _method(scope: Scope) -> str:
    method = str(scope["method"])
    return method if method.isalpha() and len(method) < 10 else "OTHER"


def is_loopback(host: str) -> bool:
    """Returns True if a host to bind to is this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


async def _send_preflight(send: Send, headers: _Headers) -> None:
    allowed = [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", b"authorization, content-type"),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": allowed})
    await send({"type": "http.response.body", "body": b""})


async def send_error(send: Send, path: str, error: RequestError) -> None:
    """Sends an error in the shape of the interface that the path belongs to."""
    body = json.dumps(error_body(path, error)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
