"""Downloads one file from one URL, over HTTP(S): resumes partial downloads, with a message for each kind of failure."""

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

from pellucid.errors import DataError, format_value

Progress = Callable[[int, int | None], None]
"""Called with the number of bytes received, and the total, if known."""

CHUNK = 1 << 16
MOST_BYTES = 8 * 10**9  # limit for a file without a published size: more must be something else

LEAST_RATE = 1024
"""Bytes per second at least: otherwise a server that sends single bytes would keep a download alive forever."""
MOST_DIGITS = 18
"""Digits of a length in a header at most."""

# https://docs.openssl.org/master/man1/openssl-verification-options/
_CLOCK_CODES = (9, 10)  # not yet valid, expired
_ISSUER_CODES = (18, 19, 20, 21)  # self-signed, or signed by an unknown issuer


class TransferError(Exception):
    """Raised with a message why a URL did not return the file; `hint` is a remedy, or empty.

    `is_passing`: a retry may succeed.
    """

    def __init__(self, reason: str, hint: str = "", *, is_passing: bool = False) -> None:
        super().__init__(reason)
        self.hint = hint
        self.is_passing = is_passing


def download_url(
    url: str, partial: Path, progress: Progress, *, size: int | None = None, timeout: float = 30.0
) -> None:
    """Completes the file `partial` from `url`: if it has a beginning, only the rest is requested.

    Args:
        size: bytes of the file, if known; a URL that announces another size is not read.
        timeout: seconds without a response, without data, or below LEAST_RATE after which the download is aborted.

    Raises TransferError if the URL does not return the file, DataError if the file cannot be written.
    """
    have = partial.stat().st_size if partial.exists() else 0
    if size is not None and have == size:
        return  # complete already, but not yet verified
    if size is not None and have > size:
        partial.unlink()
        have = 0
    with _open(url, have, timeout) as response:
        offset = have if response.status == 206 else 0
        total = _read_announced_size(response, offset, have)
        if size is not None and total is not None and total != size:
            raise TransferError(f"offers {total:,} bytes instead of {size:,}")
        _check_room(partial, (total or 0) - offset)
        _receive(response, partial, offset, total, size or MOST_BYTES, timeout, progress)


class _SafeRedirects(HTTPRedirectHandler):
    """Follows redirects over HTTP and HTTPS, but never from an encrypted connection to an unencrypted one."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        scheme = urlsplit(newurl).scheme
        if req.type == "https" and scheme != "https":
            raise TransferError(f"redirects to `{format_value(newurl)}`, which is not encrypted")
        if scheme not in ("http", "https"):
            raise TransferError(f"redirects to `{format_value(newurl)}`, which is neither http nor https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any
    ) -> Any:  # urllib calls it for each kind of redirect
        fp.close()  # otherwise its whole body, possibly endless, would be read
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _PunctualResponse(HTTPResponse):
    """A response whose headers must arrive completely within the timeout of its connection."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self._connection = sock
        self._is_late = False

    def begin(self) -> None:
        """Reads the headers. Raises TimeoutError if they are late."""
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


class _PunctualConnection(HTTPConnection):
    response_class = _PunctualResponse


class _PunctualSecureConnection(HTTPSConnection):
    response_class = _PunctualResponse


class _Http(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_PunctualConnection, req)


class _Https(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_PunctualSecureConnection, req, context=ssl.create_default_context())


@contextmanager
def _open(url: str, offset: int, timeout: float) -> Iterator[HTTPResponse]:
    """Yields the response to a request for the bytes from `offset` on. Certificates are always checked."""
    headers = {"User-Agent": f"pellucid/{version('pellucid')}", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    opener = build_opener(_Http, _Https, _SafeRedirects)
    try:
        with opener.open(Request(url, headers=headers), timeout=timeout) as response:
            yield response
    except HTTPError as error:
        error.close()
        raise _make_refusal_error(error.code, error.reason) from error
    except URLError as error:
        raise _unreachable(error.reason, url, timeout) from error
    except (OSError, HTTPException) as error:
        raise _unreachable(error, url, timeout) from error
    except ValueError as error:  # from urllib, for invalid URLs and numbers in headers
        raise TransferError(f"sends an invalid answer: {format_value(str(error))}") from error


def _make_refusal_error(status: int, reason: str) -> TransferError:
    meanings = {403: "access denied", 404: "no such file", 429: "too many requests"}
    meaning = meanings.get(status, reason or "no reason given")
    return TransferError(
        f"answers with status {status}: {format_value(meaning)}", is_passing=status == 429 or status >= 500
    )


def _unreachable(error: object, url: str, timeout: float) -> TransferError:
    """Returns the error for a failed connection, or a missing response."""
    host = urlsplit(url).hostname
    if isinstance(error, ssl.SSLCertVerificationError):
        return _make_certificate_error(error)
    if isinstance(error, socket.gaierror):
        return TransferError(f"the host `{host}` was not found", "check the network connection")
    if isinstance(error, ConnectionRefusedError):
        return TransferError(
            f"the host `{host}` refuses the connection", "check the connection, the proxy and the firewall"
        )
    if isinstance(error, TimeoutError):
        return TransferError(f"did not answer within {timeout:g} s", is_passing=True)
    return TransferError(f"cannot be reached: {format_value(str(error).strip())}", is_passing=True)


def _make_certificate_error(error: ssl.SSLCertVerificationError) -> TransferError:
    if error.verify_code in _CLOCK_CODES:
        hint = "check the clock of this machine; if it is right, the publisher must renew the certificate"
    elif error.verify_code in _ISSUER_CODES:
        hint = "set SSL_CERT_FILE to the certificates to trust, for instance of a proxy"
    else:
        hint = "another server answers in its place, or its certificate is for another name"
    return TransferError(f"has a certificate that cannot be trusted: {error.verify_message.rstrip('.')}", hint)


def _read_announced_size(response: HTTPResponse, offset: int, have: int) -> int | None:
    """Returns the size of the whole file in bytes, if the response contains it."""
    if response.status == 206 and _first_byte(response.headers) != have:
        raise TransferError("sends another part of the file than requested")
    length = response.headers.get("Content-Length")
    return None if length is None else offset + _number(length)


def _first_byte(headers: Message) -> int | None:
    """Returns 500 of `Content-Range: bytes 500-999/1000`."""
    first = headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return _number(first) if first else None


def _number(text: str) -> int:
    """Returns a number of bytes. Raises TransferError for an invalid number."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        raise TransferError(f"announces `{format_value(text)}` bytes, which is not a length")
    return int(text)


def _receive(
    response: HTTPResponse, partial: Path, offset: int, total: int | None, most: int, timeout: float, progress: Progress
) -> None:
    """Appends the received data to the first `offset` bytes of the file."""
    with convert_cache_write_errors(partial), partial.open("ab" if offset else "wb") as file:
        done = offset
        for chunk in _chunks(response, offset, timeout):
            done += len(chunk)
            if done > most:
                raise TransferError(f"sends more than {most:,} bytes")
            file.write(chunk)
            progress(done, total)
        file.flush()
        os.fsync(file.fileno())
    if total is not None and done < total:  # read1() raises no error for this
        raise _broken_off(done, total)


def _chunks(response: HTTPResponse, done: int, timeout: float) -> Iterator[bytes]:
    """Yields the received data, after the `done` bytes received before. `timeout` also limits the time below the
    LEAST_RATE.
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
                    told = f"sends {since:,} bytes in {waited:.0f} s; the minimum is {LEAST_RATE:,} bytes per second"
                    failure = TransferError(told, is_passing=True)
                begun, since = time.monotonic(), 0
            if chunk and (len(chunk) == CHUNK or not part):
                yield bytes(chunk)
                chunk.clear()
            if not part:
                return
    if chunk:
        yield bytes(chunk)  # so that the next attempt resumes after it
    raise failure


def _broken_off(done: int, total: int | None) -> TransferError:
    of_all = "" if total is None else f" of {total:,}"
    return TransferError(f"broke off after {done:,}{of_all} bytes", is_passing=True)


@contextmanager
def convert_cache_write_errors(path: Path) -> Iterator[None]:
    """Converts errors of writing a cache file to DataError; network errors have been converted before."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "no space left" if is_full else error.strerror or str(error)
        hint = "set PELLUCID_CACHE to another cache folder"
        raise DataError(
            f"cannot write `{path}`: {reason}", f"free disk space, or {hint}" if is_full else hint
        ) from error


def _check_room(partial: Path, needed: int) -> None:
    free = shutil.disk_usage(partial.parent).free
    if needed > free:
        raise DataError(
            f"`{partial.parent}` has {filesize.decimal(free)} free, but {filesize.decimal(needed)} are still to be "
            "downloaded",
            "free disk space, or set PELLUCID_CACHE to another cache folder",
        )
