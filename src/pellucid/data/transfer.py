"""One file from one address, over HTTP(S): in parts if need be, with a sentence for each way in which it can fail."""

import errno
import os
import shutil
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.client import HTTPException, HTTPResponse
from importlib.metadata import version
from pathlib import Path
from socket import gaierror
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from rich import filesize

from pellucid.errors import DataError

Progress = Callable[[int, int | None], None]
"""Called with the bytes that have come, and how many there are, if known."""

CHUNK = 1 << 16
MOST_BYTES = 8 * 10**9  # of a file whose size nobody has published: beyond it, something else is being sent

# https://docs.openssl.org/master/man1/openssl-verification-options/
_CLOCK_CODES = (9, 10)  # not yet valid, expired
_ISSUER_CODES = (18, 19, 20, 21)  # self-signed, or signed by somebody unknown here


class TransferError(Exception):
    """Why an address did not give the file, in a sentence; `hint` is what to do, or empty.

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
        timeout: seconds without any answer or data after which it is given up.

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
        _receive(response, partial, offset, total, size or MOST_BYTES, progress)


class _SafeRedirects(HTTPRedirectHandler):
    """Follows redirections, but never from an encrypted connection to an open one."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            fp.close()
            raise TransferError(f"leads on to `{newurl}`, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextmanager
def _open(url: str, offset: int, timeout: float) -> Iterator[HTTPResponse]:
    """The answer to a request for the bytes from `offset` on. Certificates are always checked."""
    headers = {"User-Agent": f"pellucid/{version('pellucid')}", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    opener = build_opener(HTTPSHandler(context=ssl.create_default_context()), _SafeRedirects)
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


def _refused(status: int, reason: str) -> TransferError:
    meanings = {403: "it is not given out", 404: "there is no such file", 429: "too many requests"}
    meaning = meanings.get(status, reason or "no reason given")
    return TransferError(f"answers with status {status}: {meaning}", is_passing=status == 429 or status >= 500)


def _unreachable(error: object, url: str, timeout: float) -> TransferError:
    """The reason why no connection came about, or no answer over it."""
    host = urlsplit(url).hostname
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(error)
    if isinstance(error, gaierror):
        return TransferError(f"the host `{host}` is not found", "check the connection to the network")
    if isinstance(error, ConnectionRefusedError):
        return TransferError(f"the host `{host}` refuses the connection", "check the connection, a proxy or firewall")
    if isinstance(error, TimeoutError):
        return TransferError(f"has not answered within {timeout:g} s", is_passing=True)
    return TransferError(f"cannot be reached: {error}", is_passing=True)


def _untrusted(error: ssl.SSLCertVerificationError) -> TransferError:
    if error.verify_code in _CLOCK_CODES:
        hint = "check the clock of this machine; if it is right, the publisher has to renew the certificate"
    elif error.verify_code in _ISSUER_CODES:
        hint = "name the certificates to trust, for instance those of a proxy, by SSL_CERT_FILE"
    else:
        hint = "somebody else answers in its place, or its certificate is for another name"
    return TransferError(f"has a certificate that cannot be trusted: {error.verify_message.rstrip('.')}", hint)


def _announced(response: HTTPResponse, offset: int, have: int) -> int | None:
    """The bytes of the whole file, if the answer tells."""
    if response.status == 206 and _first_byte(response.headers) != have:
        raise TransferError("answers with another part of the file than was asked for")
    length = response.headers.get("Content-Length", "")
    return offset + int(length) if length.isdecimal() else None


def _first_byte(headers: Message) -> int | None:
    """Of `Content-Range: bytes 500-999/1000`."""
    first = headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(first) if first.isdecimal() else None


def _receive(
    response: HTTPResponse, partial: Path, offset: int, total: int | None, most: int, progress: Progress
) -> None:
    """Appends what comes to the first `offset` bytes of the file."""
    with writing(partial), partial.open("ab" if offset else "wb") as file:
        done = offset
        for chunk in _chunks(response, offset):
            done += len(chunk)
            if done > most:
                raise TransferError(f"sends more than {most:,} bytes")
            file.write(chunk)
            progress(done, total)
        file.flush()
        os.fsync(file.fileno())
    if total is not None and done < total:  # reading in parts does not tell
        raise _broken_off(done, total)


def _chunks(response: HTTPResponse, done: int) -> Iterator[bytes]:
    """What comes, after the `done` bytes that had come before."""
    try:
        while chunk := response.read(CHUNK):
            done += len(chunk)
            yield chunk
    except TimeoutError as error:
        raise TransferError(f"stopped sending after {done:,} bytes", is_passing=True) from error
    except (OSError, HTTPException) as error:
        raise _broken_off(done, None) from error


def _broken_off(done: int, total: int | None) -> TransferError:
    of_all = "" if total is None else f" of {total:,}"
    return TransferError(f"broke off after {done:,}{of_all} bytes", is_passing=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what goes wrong in writing a file of the cache into a DataError; network errors are none by then."""
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
