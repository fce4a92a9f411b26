"""Lines of a pipe or a terminal as they arrive: who asks gets those that are there, and waits only for the first."""

import threading
from collections import deque
from collections.abc import Iterator

MOST_WAITING_LINES = 4096
MOST_WAITING_BYTES = 1 << 25
"""The most that is read ahead of who asks; whoever feeds the pipe has to wait then."""


class Arrivals:
    """Lines that a thread of its own reads. It is the one way that works on every system: Windows cannot ask a pipe
    whether there is anything in it."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._ended = False
        self._error: BaseException | None = None
        # A daemon: a process whose work is done does not wait for who feeds its pipe.
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    @property
    def is_ready(self) -> bool:
        """True where take() would not wait."""
        return bool(self._lines) or self._ended

    def take(self, most: int) -> list[bytes]:
        """Returns the lines that are there, `most` at most; waits where there is none; at the end there is none.

        Raises what the reading raised, after the lines before it.
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
