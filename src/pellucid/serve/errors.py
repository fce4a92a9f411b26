"""Errors of requests, and their bodies in the shape of each interface."""

from collections.abc import Mapping, MutableMapping
from typing import Any


class RequestError(Exception):
    """A request that is refused or failed.

    Args:
        status: the HTTP status.
        message: a sentence without paths of the machine and without secrets.
        field: the name of the field at fault; empty if it is none.
        headers: further headers of the answer, such as Retry-After.
    """

    def __init__(self, status: int, message: str, field: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status: int = status
        self.message: str = message
        self.field: str = field
        self.headers: dict[str, str] = dict(headers or {})


_OPENAI_TYPES = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error", 408: "timeout_error",
    429: "rate_limit_error", 503: "overloaded_error",
}  # fmt: skip


def find_path(scope: MutableMapping[str, Any]) -> str:
    """Returns the path of a request below the path of the application, by which Starlette finds the route, too."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        return path[len(root) :]
    return path


def find_interface(path: str) -> str:
    """Returns the interface that a path belongs to: deepl, openai or libretranslate."""
    if path.startswith(("/v2/", "/v3/")) or path in ("/v2", "/v3"):
        return "deepl"
    return "openai" if path.startswith("/v1/") or path == "/v1" else "libretranslate"


def error_body(path: str, error: RequestError) -> dict[str, Any]:
    """Returns the body of an error in the shape of the interface that the path belongs to."""
    interface = find_interface(path)
    if interface == "deepl":
        return {"message": error.message}
    if interface == "openai":
        kind = _OPENAI_TYPES.get(error.status) or ("server_error" if error.status >= 500 else "invalid_request_error")
        code = "model_not_found" if error.status == 404 and error.field == "model" else None
        return {"error": {"message": error.message, "type": kind, "param": error.field or None, "code": code}}
    return {"error": error.message}
