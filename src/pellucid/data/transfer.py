"""Fetches one file from one address, over HTTP(S): in parts if need be, with a sentence for each way to fail."""

import errno
import os
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from rich import filesize

from pellucid.errors import DataError, shown

Progress = Callable[[int, int | None], None]
"""Called with the bytes that have come, and how many there are, if known."""

CHUNK = 1 << 16
MOST_BYTES = 8 * 10**9  # of a file whose size nobody has published: beyond it, something else is being sent

LEAST_RATE = 1024
"""Bytes a second that must come. A server that sends one now and then would keep a download going for ever."""
MOST_DIGITS = 18
"""The digits of a length in a header."""

# https://docs.openssl.org/master/man1/openssl-verification-options/
_CLOCK_CODES = (9, 10)  # not yet valid, expired
_ISSUER_CODES = (18, 19, 20, 21)  # self-signed, or signed by somebody unknown here


class TransferError(Exception):
    """Raised with a sentence that says why an address did not give the file; `hint` is what to do, or empty.

    `is_passing`: it may go better the next time.
    """

    def __init__(self, reason: str, hint: str = "", *, is_passing: bool = False) -> None:
        super().__init__(reason)
        self.hint = hint
        self.is_passing = is_passing


def transfer(url: str, partial: Path, progress: Progress, *, size: int | None = None, timeout: float = 30.0) -> None:
    """Completes the file `partial` from `url`: where it has a beginning, only the rest is asked for.

    Args:
        size: bytes that the file has, if known; an address that has another number of them is not read from.
        timeout: seconds without an answer, without data, or with less than LEAST_RATE, after which it is given up.

    Raises TransferError where the address does not give the file, DataError where it cannot be written.
    """
    have = partial.stat().st_size if partial.exists() else 0
    if size is not None and have == size:
        return  # all had come before, and only its check had not been made
    if size is not None and have > size:
        partial.unlink()
        have = 0
    with _open(url, have, timeout) as response:
        offset = have if response.status == 206 else 0
        total = _announced(response, offset, have)
        if size is not None and total is not None and total != size:
            raise TransferError(f"offers {total:,} bytes, but the file has {size:,}")
        _check_room(partial, (total or 0) - offset)
        _receive(response, partial, offset, total, size or MOST_BYTES, timeout, progress)


class _SafeRedirects(HTTPRedirectHandler):
    """Follows redirections over HTTP and HTTPS, but never from an encrypted connection to an open one."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        scheme = urlsplit(newurl).scheme
        if req.type == "https" and scheme != "https":
            raise TransferError(f"leads on to `{shown(newurl)}`, which is not encrypted")
        if scheme not in ("http", "https"):
            raise TransferError(f"leads on to `{shown(newurl)}`, which is neither http nor https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any
    ) -> Any:  # what urllib calls for each kind of redirection
        fp.close()  # else all of its body would be read, and it may have no end
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _PunctualResponse(HTTPResponse):
    """An answer whose headers come within the timeout of its connection, and not a letter at a time."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self._connection = sock
        self._is_late = False

    def begin(self) -> None:
        """Reads the headers. Raises TimeoutError where they are late."""
        timer = threading.Timer(self._connection.gettimeout() or 0, self._hang_up)
        timer.daemon = True
        timer.start()
        try:
            super().begin()
        except (OSError, HTTPException):
            if not self._is_late:
                raise
        finally:
            timer.cancel()
        if self._is_late:
            raise TimeoutError

    def _hang_up(self) -> None:
        self._is_late = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


class _Http(HTTPHandler):
    class Connection(HTTPConnection):
        response_class = _PunctualResponse

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(self.Connection, req)


class _Https(HTTPSHandler):
    class Connection(HTTPSConnection):
        response_class = _PunctualResponse

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(self.Connection, req, context=ssl.create_default_context())


@contextmanager
def _open(url: str, offset: int, timeout: float) -> Iterator[HTTPResponse]:
    """Returns the answer to a request for the bytes from `offset` on. Certificates are always checked."""
    headers = {"User-Agent": f"pellucid/{version('pellucid')}", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    opener = build_opener(_Http, _Https, _SafeRedirects)
    try:
        with opener.open(Request(url, headers=headers), timeout=timeout) as response:
            yield response
    except HTTPError as error:
        error.close()
        raise _refused(error.code, error.reason) from error
    except URLError as error:
        raise _unreachable(error.reason, url, timeout) from error
    except (OSError, HTTPException) as error:
        raise _unreachable(error, url, timeout) from error
    except ValueError as error:  # of urllib, for addresses and numbers in headers
        raise TransferError(f"answers what cannot be followed: {shown(str(error))}") from error


def _refused(status: int, reason: str) -> TransferError:
    meanings = {403: "it is not given out", 404: "there is no such file", 429: "too many requests"}
    meaning = meanings.get(status, reason or "no reason given")
    return TransferError(f"answers with status {status}: {shown(meaning)}", is_passing=status == 429 or status >= 500)


def _unreachable(error: object, url: str, timeout: float) -> TransferError:
    """Returns the reason why no connection came about, or no answer over it."""
    host = urlsplit(url).hostname
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(error)
    if isinstance(error, socket.gaierror):
        return TransferError(f"the host `{host}` is not found", "check the connection to the network")
    if isinstance(error, ConnectionRefusedError):
        return TransferError(f"the host `{host}` refuses the connection", "check the connection, a proxy or firewall")
    if isinstance(error, TimeoutError):
        return TransferError(f"has not answered within {timeout:g} s", is_passing=True)
    return TransferError(f"cannot be reached: {shown(str(error).strip())}", is_passing=True)


def _untrusted(error: ssl.SSLCertVerificationError) -> TransferError:
    if error.verify_code in _CLOCK_CODES:
        hint = "check the clock of this machine; if it is right, the publisher has to renew the certificate"
    elif error.verify_code in _ISSUER_CODES:
        hint = "name the certificates to trust, for instance those of a proxy, by SSL_CERT_FILE"
    else:
        hint = "somebody else answers in its place, or its certificate is for another name"
    return TransferError(f"has a certificate that cannot be trusted: {error.verify_message.rstrip('.')}", hint)


def _announced(response: HTTPResponse, offset: int, have: int) -> int | None:
    """Returns the bytes of the whole file, if the answer tells."""
    if response.status == 206 and _first_byte(response.headers) != have:
        raise TransferError("answers with another part of the file than was asked for")
    length = response.headers.get("Content-Length")
    return None if length is None else offset + _number(length)


def _first_byte(headers: Message) -> int | None:
    """Returns 500 of `Content-Range: bytes 500-999/1000`."""
    first = headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return _number(first) if first else None


def _number(text: str) -> int:
    """Returns a number of bytes. Raises TransferError for what is not one."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        raise TransferError(f"announces `{shown(text)}` bytes, which is not a length")
    return int(text)


def _receive(
    response: HTTPResponse, partial: Path, offset: int, total: int | None, most: int, timeout: float, progress: Progress
) -> None:
    """Appends what comes to the first `offset` bytes of the file."""
    with writing(partial), partial.open("ab" if offset else "wb") as file:
        done = offset
        for chunk in _chunks(response, offset, timeout):
            done += len(chunk)
            if done > most:
                raise TransferError(f"sends more than {most:,} bytes")
            file.write(chunk)
            progress(done, total)
        file.flush()
        os.fsync(file.fileno())
    if total is not None and done < total:  # reading in parts does not tell
        raise _broken_off(done, total)


def _chunks(response: HTTPResponse, done: int, timeout: float) -> Iterator[bytes]:
    """Yields what comes, after the `done` bytes that had come before. `timeout` is also how long it may come too
    slowly.
    """
    begun, since, chunk = time.monotonic(), 0, bytearray()
    failure: TransferError | None = None
    while failure is None:
        try:
            part = response.read1(CHUNK - len(chunk))  # read() would wait for all of a chunk
        except TimeoutError:
            failure = TransferError(f"stopped sending after {done:,} bytes", is_passing=True)
        except (OSError, HTTPException, ValueError):  # ValueError: a chunk of -5 bytes
            failure = _broken_off(done, None)
        else:
            chunk += part
            since += len(part)
            done += len(part)
            waited = time.monotonic() - begun
            if waited >= timeout:
                if since < LEAST_RATE * waited:
                    told = f"sends {since:,} bytes in {waited:.0f} s, at least {LEAST_RATE:,} a second are waited for"
                    failure = TransferError(told, is_passing=True)
                begun, since = time.monotonic(), 0
            if chunk and (len(chunk) == CHUNK or not part):
                yield bytes(chunk)
                chunk.clear()
            if not part:
                return
    if chunk:
        yield bytes(chunk)  # so that the next attempt goes on behind it
    raise failure


def _broken_off(done: int, total: int | None) -> TransferError:
    of_all = "" if total is None else f" of {total:,}"
    return TransferError(f"broke off after {done:,}{of_all} bytes", is_passing=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what goes wrong in writing a file of the cache into a DataError; network errors are others by then."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "no space is left" if is_full else error.strerror or str(error)
        hint = "name another folder for the cache by PELLUCID_CACHE"
        raise DataError(f"cannot write `{path}`: {reason}", f"make room, or {hint}" if is_full else hint) from error


def _check_room(partial: Path, needed: int) -> None:
    free = shutil.disk_usage(partial.parent).free
    if needed > free:
        raise DataError(
            f"`{partial.parent}` has {filesize.decimal(free)} left, but {filesize.decimal(needed)} are to come",
            "make room, or name another folder for the cache by PELLUCID_CACHE",
        )
