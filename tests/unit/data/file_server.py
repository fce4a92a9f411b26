"""A server of files on this machine, for downloads to fail at: each first part of a path is a way to behave."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WRONG = b"not what was asked for"


class FileServer:
    """Serves `files` by name: SERVER/good/NAME as it should be, SERVER/stalls/NAME and so on as `Handler` does."""

    def __init__(self, server: ThreadingHTTPServer, scheme: str) -> None:
        self.address = f"{scheme}://localhost:{server.server_port}"
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        """Path and Range of each request, in the order in which they came."""
        self.asked = threading.Event()
        self.gate = threading.Event()
        """What `gated` sets when it is asked, and waits for before it answers."""
        self.end = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """`server.state` is the FileServer."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        """Behaves as the path says."""
        state = self.server.state
        state.requests.append((self.path, self.headers.get("Range", "")))
        behaviour, _, name = self.path.removeprefix("/").partition("/")
        self.close_connection = True
        getattr(self, behaviour)(name, state.files.get(name, b""))

    def good(self, name: str, body: bytes) -> None:
        """The file, or the part of it that was asked for."""
        first = self._first()
        self._begin(206 if first else 200, len(body) - first, first, len(body))
        self.wfile.write(body[first:])

    def whole(self, name: str, body: bytes) -> None:
        """The whole file, whatever part was asked for."""
        self._begin(200, len(body))
        self.wfile.write(body)

    def unmeasured(self, name: str, body: bytes) -> None:
        """The file, without its length."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def endless(self, name: str, body: bytes) -> None:
        """More and more of it."""
        self.unmeasured(name, body * 50)

    def short(self, name: str, body: bytes) -> None:
        """The first half of what is left of the file, as if it were all that is left."""
        first = self._first()
        self._begin(206 if first else 200, len(body) - first, first, len(body))
        self.wfile.write(body[first : (first + len(body) + 1) // 2])

    def chunked(self, name: str, body: bytes) -> None:
        """Half of the file, in a chunk that breaks off."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(f"{len(body):x}\r\n".encode() + body[: len(body) // 2])

    def flaky(self, name: str, body: bytes) -> None:
        """Half of the file the first time, the rest after that."""
        (self.good if self._first() else self.short)(name, body)

    def shifted(self, name: str, body: bytes) -> None:
        """Another part of the file than was asked for."""
        self._begin(206, len(body) - 1, 1, len(body))
        self.wfile.write(body[1:])

    def stalls(self, name: str, body: bytes) -> None:
        """Half of the file, and then nothing until the test has ended."""
        self._begin(200, len(body))
        self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()
        self.server.state.end.wait(30)

    def gated(self, name: str, body: bytes) -> None:
        """The file, but not before the test says so."""
        self.server.state.asked.set()
        self.server.state.gate.wait(30)
        self.good(name, body)

    def mute(self, name: str, body: bytes) -> None:
        """Nothing at all."""
        self.server.state.end.wait(30)

    def missing(self, name: str, body: bytes) -> None:
        """No such file."""
        self._answer(404, b"not found")

    def forbidden(self, name: str, body: bytes) -> None:
        """Not for you."""
        self._answer(403, b"")

    def busy(self, name: str, body: bytes) -> None:
        """Not now."""
        self._answer(503, b"")

    def wrong(self, name: str, body: bytes) -> None:
        """As many bytes as the file has, but others."""
        self._answer(200, bytes(len(body)))

    def login(self, name: str, body: bytes) -> None:
        """A page where a file should be."""
        self._answer(200, b"<html>please log in</html>")

    def moved(self, name: str, body: bytes) -> None:
        """The file is at another address now."""
        self._lead_to(f"/good/{name}")

    def circle(self, name: str, body: bytes) -> None:
        """An address that leads to itself."""
        self._lead_to(self.path)

    def unencrypted(self, name: str, body: bytes) -> None:
        """The file is at another address now, without encryption."""
        self._lead_to(f"http://localhost:1/good/{name}")

    def nonsense(self, name: str, body: bytes) -> None:
        """Something that is no HTTP."""
        self.wfile.write(b"220 this is a mail server\r\n")

    def lost(self, name: str, body: bytes) -> None:
        """The file is at an address that is none."""
        self._lead_to("http://[::bad/x")

    def elsewhere(self, name: str, body: bytes) -> None:
        """The file is at an address of another kind."""
        self._lead_to("ftp://localhost:1/x")

    def boundless(self, name: str, body: bytes) -> None:
        """The file is elsewhere, says an answer that does not end by itself."""
        self.send_response(302)
        self.send_header("Location", f"/good/{name}")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self.server.state.end.wait(30)

    def digits(self, name: str, body: bytes) -> None:
        """A length that no file has."""
        self.send_response(200)
        self.send_header("Content-Length", "9" * 5000)
        self.end_headers()
        self.wfile.write(body)

    def negative(self, name: str, body: bytes) -> None:
        """A chunk of less than nothing."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"-5\r\n" + body)

    def drips(self, name: str, body: bytes) -> None:
        """A byte now and then: each comes in time, the file never does."""
        self._begin(200, len(body))
        self._drip(body)

    def spells(self, name: str, body: bytes) -> None:
        """A header a letter at a time."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nServer: ")
        self._drip(b"x" * 60_000)

    def _drip(self, body: bytes) -> None:
        for place in range(len(body)):
            if self.server.state.end.wait(0.02):
                return
            self.wfile.write(body[place : place + 1])
            self.wfile.flush()

    def _first(self) -> int:
        return int(self.headers.get("Range", "bytes=0-")[len("bytes=") : -1])

    def _lead_to(self, address: str) -> None:
        self.send_response(302)
        self.send_header("Location", address)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, status: int, body: bytes) -> None:
        self._begin(status, len(body))
        self.wfile.write(body)

    def _begin(self, status: int, length: int, first: int = 0, total: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{total - 1}/{total}")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the screen."""


class Server(ThreadingHTTPServer):
    """Its threads end with it."""

    state: FileServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no error here."""


@contextmanager
def serving(certificate: ssl.SSLContext | None = None) -> Iterator[FileServer]:
    """A server while it lasts; encrypted where there is a certificate."""
    server = Server(("localhost", 0), Handler)
    server.state = FileServer(server, "https" if certificate else "http")
    if certificate:
        # The handshake in the thread of the connection: one that fails must not end the server.
        server.socket = certificate.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.state
    finally:
        server.state.end.set()
        server.shutdown()
        thread.join()
        server.server_close()
