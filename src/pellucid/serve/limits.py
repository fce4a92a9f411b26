"""The limits of a server: sizes of requests, times, and the bounds of the queue."""

from dataclasses import dataclass, fields

from pellucid.errors import ConfigError, format_argument


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerLimits:
    """The limits of a server."""

    characters: int = 100_000
    """The characters of all texts of a request."""
    texts: int = 1_000
    """The texts of a request."""
    body_bytes: int = 2 << 20
    """The bytes of a request without a file."""
    document_bytes: int = 32 << 20
    """The bytes of a document."""
    alternatives: int = 10
    """The alternatives of a translation."""
    body_seconds: float = 30.0
    """The time from the first byte of a request, or from the connection, to its last byte."""
    seconds: float = 600.0
    """The time of a request after it was read; then it is answered by 503."""
    ending_seconds: float = 30.0
    """The time that accepted requests have to finish when the server ends."""
    queue_tokens: int = 65_536
    """The source tokens of all requests that wait."""
    requests: int = 1_024
    """The requests that are in work or wait."""
    threads: int = 64
    """The requests whose texts are in work at the same time."""
    documents: int = 64
    """The documents that are stored."""
    document_seconds: float = 3600.0
    """The time for which a document is stored."""
    glossaries: int = 1_000
    """The glossaries that are stored."""
    glossary_entries: int = 10_000
    """The entries of a glossary."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise ConfigError(f"{format_argument(field.name, value)} must be a number above 0")
