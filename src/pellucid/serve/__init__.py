"""A server of translators: the interfaces of LibreTranslate, DeepL and OpenAI, as an ASGI application (extra `serve`).

import pellucid.serve

application = pellucid.serve.app(["de-en=run"])  # for uvicorn, hypercorn, granian or Ray Serve
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid.errors import ConfigError, format_install_command
from pellucid.serve.limits import ServerLimits

__all__ = ["ServerLimits", "app"]


def app(
    models: Sequence[str | Path],
    *,
    api_keys: Sequence[str] = (),
    hosts: Sequence[str] | None = None,
    origins: Sequence[str] = (),
    pivot: str = "",
    device: str = "auto",
    dtype: str | None = None,
    engine: str = "auto",
    store: str | Path | None = None,
    limits: ServerLimits | None = None,
) -> Any:
    """Returns the ASGI application that serves translators.

    Args:
        models: model folders or names on the Hugging Face hub, each with its language pair before it if its folder does
            not state one: `de-en=run`.
        api_keys: if there are any, each request needs one, except for /health, /ready and /metrics.
        hosts: the names by which the server is addressed (`Host`); None: any, for a server behind another one.
        origins: the origins of web pages that may call the server (CORS); none by default.
        pivot: the code of a language through which a missing pair is translated, as in `en`; empty: no pair is.
        device, dtype, engine: as for `Translator.load`.
        store: a private folder for documents and glossaries, which several processes of one server share; None: a
            temporary folder of this process.
        limits: the limits of requests and of the queue; None: the defaults.

    Models are loaded when they are first used. Raises ConfigError for a model without a language pair, two models of
    one pair, or if the extra `serve` is not installed; CheckpointError if a folder has no model.
    """
    try:
        from pellucid.serve.application import make_application
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a server requires {error.name}, which is not installed", format_install_command("serve")
        ) from None
    return make_application(
        models, api_keys=api_keys, hosts=hosts, origins=origins, pivot=pivot, device=device, dtype=dtype, engine=engine,
        store=store, limits=limits,
    )  # fmt: skip
