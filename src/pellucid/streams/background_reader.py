"""Lines of a pipe or a terminal as they arrive: a reader gets the available lines, and waits only for the first one."""

import threading
from collections import deque
from collections.abc import Iterator

MOST_WAITING_LINES = 4096
MOST_WAITING_BYTES = 1 << 25
"""Bytes read ahead at most; beyond them, the process that writes to the pipe has to wait."""


class Arrivals:
    """Lines that a separate thread reads. This works on every system: on Windows a pipe cannot be polled for available
    data."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._ended = False
        self._error: BaseException | None = None
        # A daemon: a process that has finished does not wait for its pipe.
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    @property
    def is_ready(self) -> bool:
        """True if take() would not wait."""
        return bool(self._lines) or self._ended

    def take(self, most: int) -> list[bytes]:
        """Returns the available lines, at most `most`; waits if there are none; returns an empty list at the end.

        Raises the error of the reading thread, after the lines before it.
        """
        with self._changed:
            while not self._lines and not self._ended:
                self._changed.wait()
            if not self._lines and self._error is not None:
                raise self._error
            taken = [self._lines.popleft() for _ in range(min(most, len(self._lines)))]
            self._bytes -= sum(map(len, taken))
            self._changed.notify()
        return taken

    def _read(self, lines: Iterator[bytes]) -> None:
        try:
            for line in lines:
                with self._changed:
                    while len(self._lines) >= MOST_WAITING_LINES or self._bytes >= MOST_WAITING_BYTES:
                        self._changed.wait()
                    self._lines.append(line)
                    self._bytes += len(line)
                    self._changed.notify()
        except BaseException as error:
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify()
