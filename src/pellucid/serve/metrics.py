"""The metrics of a server for Prometheus: routes are labelled by their templates, never by a text of a client."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Metrics:
    """The counters of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("route", "method", "status")
        self._requests = Counter("pellucid_requests", "Answered requests", labels, registry=self._registry)
        self._seconds = Histogram(
            "pellucid_request_seconds", "Time of requests", ("route",), registry=self._registry,
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300),
        )  # fmt: skip
        self._open = Gauge("pellucid_open_requests", "Requests that are not answered yet", registry=self._registry)
        self.characters: Counter = Counter("pellucid_characters", "Translated characters", registry=self._registry)

    def add_gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Adds a value that is read when the metrics are written."""
        Gauge(f"pellucid_{name}", text, registry=self._registry).set_function(read)

    def measure(self) -> AbstractContextManager[object]:
        """Returns a context in which a request is open."""
        return self._open.track_inprogress()

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Counts an answered request; the status is 0 if the client left."""
        self._requests.labels(route, method if method in METHODS else "OTHER", str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def write(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
