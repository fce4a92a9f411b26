"""A server in a thread, and a client that sends requests byte by byte as a test writes them."""

import http.client
import json
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

from pellucid.serve import app
from pellucid.serve.gate import LOOPBACK
from pellucid.serve.limits import ServerLimits
from pellucid.serve.running import make_protocol, open_sockets


@dataclass(frozen=True)
class Answer:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int
    application: Any

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        table: Any = None,
        *,
        form: Sequence[tuple[str, str]] | None = None,
        body: bytes | None = None,
        files: Mapping[str, str | tuple[str, bytes]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends a request, with a table as JSON, a form, the fields of multipart (a file is its name and content)."""
        sent = dict(headers or {})
        if table is not None:
            body = json.dumps(table).encode()
            sent.setdefault("Content-Type", "application/json")
        elif form is not None:
            body = urlencode(form).encode()
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        elif files is not None:
            body = b""
            for name, value in files.items():
                content = value.encode() if isinstance(value, str) else value[1]
                more = "" if isinstance(value, str) else f'; filename="{value[0]}"'
                body += f'--line\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode()
                body += content + b"\r\n"
            body += b"--line--\r\n"
            sent["Content-Type"] = "multipart/form-data; boundary=line"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, sent)
            found = connection.getresponse()
            headers = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, headers, found.read().decode())
        finally:
            connection.close()

    def translate(self, text: Any, **more: Any) -> Any:
        """Returns LibreTranslate's answer to a text, from German to English."""
        return self.ask("POST", "/translate", {"q": text, "source": "de", "target": "en", **more}).json

    def send(self, data: bytes, *, until_closed: bool = False) -> bytes:
        """Sends bytes, and returns the answer: the first bytes, or all until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            found = b""
            with suppress(ConnectionError):  # it was closed before all was read
                connection.sendall(data)
                found = connection.recv(65536)
                while until_closed and (more := connection.recv(65536)):
                    found += more
            return found


@contextmanager
def serve(models: Sequence[str | Path], limits: ServerLimits | None = None, **options: Any) -> Iterator[Server]:
    """Runs a server of models in a thread, on the loopback."""
    limits = limits or ServerLimits()
    options.setdefault("hosts", LOOPBACK)
    application = app(models, limits=limits, device="cpu", engine="torch", **options)
    with run_application(application, limits.body_seconds) as server:
        yield server


@contextmanager
def run_application(application: Any, body_seconds: float = 30.0) -> Iterator[Server]:
    """Runs an application in a thread, on the loopback."""
    sockets = open_sockets("127.0.0.1", 0)
    config = uvicorn.Config(
        application, http=make_protocol(body_seconds), ws="none", lifespan="on", log_config=None,
        access_log=False, server_header=False, timeout_graceful_shutdown=10,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=(sockets,))
    thread.start()
    try:
        yield Server(sockets[0].getsockname()[1], application)
    finally:
        server.should_exit = True
        thread.join(30)
        stacks = _format_stacks() if thread.is_alive() else ""
        for each in sockets:
            each.close()
    assert not stacks, f"the server does not end:\n{stacks}"


def _format_stacks() -> str:
    """Returns the stacks of all threads."""
    names = {each.ident: each.name for each in threading.enumerate()}
    stacks = sys._current_frames().items()
    return "\n".join(f"{names.get(ident)}\n{''.join(traceback.format_stack(frame))}" for ident, frame in stacks)
