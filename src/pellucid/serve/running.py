"""Runs a server by uvicorn: its sockets, the time limit of a connection, its log, and its end on a signal."""

import asyncio
import logging
import socket
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pellucid.errors import ConfigError, format_value
from pellucid.serve.limits import ServerLimits

BACKLOG = 1024


def open_sockets(host: str, port: int) -> list[socket.socket]:
    """Returns the sockets of a host, bound: `localhost` has one for each version of IP; port 0 takes a free one.

    Raises ConfigError if an address is unknown or taken.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError):
        raise ConfigError(
            f"unknown `host={format_value(host)}`", "use 127.0.0.1, 0.0.0.0 or an address of this machine"
        ) from None
    addresses = list(dict.fromkeys((family, address) for family, *_, address in found))
    addresses.sort(key=lambda each: each[0] != socket.AF_INET)
    opened: list[socket.socket] = []
    for family, address in addresses if host == "localhost" else addresses[:1]:
        place = (address[0], opened[0].getsockname()[1] if opened and not port else port, *address[2:])
        try:
            # asyncio sets TCP_NODELAY on connections of this protocol alone; without it an answer takes 40 ms more.
            each = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind(place)
            each.listen(BACKLOG)
        except OSError as error:
            if opened:  # without one version of IP the other serves
                continue
            raise ConfigError(
                f"`host={format_value(host)}` and `port={port}` cannot be used: {error.strerror}",
                "choose another `port=`, or 0 for a free one",
            ) from None
        opened.append(each)
    return opened


def format_url(opened: socket.socket) -> str:
    """Returns the address of a socket as it is written in a browser."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(application: Any, sockets: Sequence[socket.socket], limits: ServerLimits, log: Any = sys.stderr) -> None:
    """Serves until SIGTERM or SIGINT; accepted requests are then finished within the limit."""
    handler = logging.StreamHandler(log)
    handler.setFormatter(logging.Formatter("%(message)s"))
    for name, level in (("pellucid.access", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    config = uvicorn.Config(
        application, http=make_protocol(limits.body_seconds), ws="none", lifespan="on", access_log=False,
        log_config=None, server_header=False, timeout_keep_alive=5, backlog=BACKLOG,
        timeout_graceful_shutdown=max(1, round(limits.ending_seconds)),
    )  # fmt: skip
    _Server(config).run(sockets=list(sockets))


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started and sockets:
            print(f"listening on {format_url(sockets[0])}", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends the server after its requests; a second signal ends it at once."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True


def make_protocol(seconds: float) -> type[H11Protocol]:
    """Returns the protocol class whose connections are closed if a request is not complete after `seconds`.

    uvicorn has no limit for a header or a body that trickles.
    """

    class TimedProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._begin()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._end_if_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self.transport.is_closing():
                self._begin()
                self._end_if_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end()
            super().connection_lost(exc)

        def _begin(self) -> None:
            self._end()
            self._timer = self.loop.call_later(seconds, self._close)

        def _end(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _end_if_complete(self) -> None:
            if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR):
                self._end()

        def _close(self) -> None:
            if not self.transport.is_closing():
                self.transport.close()

    return TimedProtocol
