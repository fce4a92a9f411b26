"""`pellucid serve`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Device, EngineDtype, flag, mandatory, optional


def serve(
    models: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        mandatory("[SRC-TGT=]MODEL", "model folders; the language pair before one whose folder states none"),
    ],
    /,
    *,
    host: Annotated[
        str, tyro.conf.arg(metavar="HOST", help="address to listen on; localhost has both versions of IP")
    ] = "127.0.0.1",
    port: Annotated[int, tyro.conf.arg(metavar="PORT", help="port to listen on; 0 takes a free one")] = 8000,
    api_key_file: Annotated[
        str | None, optional("FILE", "file of API keys, one per line; requests then need one", "no keys")
    ] = None,
    allow_host: Annotated[
        tuple[str, ...],
        optional(
            "NAME",
            "name by which the server is addressed; may be repeated",
            "this machine's own for 127.0.0.1, else any",
        ),
        tyro.conf.UseAppendAction,
    ] = (),
    allow_origin: Annotated[
        tuple[str, ...],
        optional("URL", "origin of web pages that may call the server; may be repeated", "none"),
        tyro.conf.UseAppendAction,
    ] = (),
    pivot: Annotated[str, optional("CODE", "language through which a missing pair is translated", "no pair is")] = "",
    engine: Annotated[str, tyro.conf.arg(metavar="NAME", help="engine: auto, torch, compiled or ctranslate2")] = "auto",
    device: Device = "auto",
    dtype: EngineDtype = None,
    char_limit: Annotated[int, tyro.conf.arg(metavar="N", help="characters of a request at most")] = 100_000,
    queue_tokens: Annotated[
        int, tyro.conf.arg(metavar="N", help="source tokens of all requests that wait at most; others get 503")
    ] = 65_536,
    store: Annotated[
        str | None,
        optional("DIR", "private folder for documents and glossaries, kept between starts", "a temporary folder"),
    ] = None,
    mcp: Annotated[
        bool, flag("speak the Model Context Protocol on standard input and output instead (extra mcp)")
    ] = False,
) -> int:
    """Serve translators over HTTP, with the interfaces of LibreTranslate, DeepL and OpenAI. Prints "listening on" and
    the address when it is ready; SIGTERM ends it after its accepted requests.

    example: pellucid serve run
    example: pellucid serve de-en=run en-fr=other --port 5000 --pivot en
    example: pellucid serve run --host 0.0.0.0 --api-key-file keys.txt
    example: pellucid serve run --mcp
    """
    from pellucid.errors import ConfigError, format_argument, format_install_command

    if not 0 <= port < 1 << 16:
        raise ConfigError(f"{format_argument('port', port)} must be from 0 to 65535", "0 takes a free port")
    if not models:
        raise ConfigError("a model is missing", "name a model folder, as in `pellucid serve run`")
    if mcp:
        given = {"api_key_file": api_key_file, "allow_host": allow_host, "allow_origin": allow_origin, "store": store}
        for name, value in given.items():
            if value:
                raise ConfigError(
                    f"`{name}=` has no effect on standard input and output", "leave it out, or leave `mcp=` out"
                )
        return _serve_mcp(models, pivot, device, dtype, engine, char_limit)
    try:
        from pellucid.serve.gate import LOOPBACK, is_loopback
        from pellucid.serve.running import open_sockets, run
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a server requires {error.name}, which is not installed", format_install_command("serve")
        ) from None
    from pellucid.serve import app
    from pellucid.serve.keys import read_keys
    from pellucid.serve.limits import ServerLimits

    limits = ServerLimits(characters=char_limit, queue_tokens=queue_tokens)
    hosts = [*LOOPBACK, *allow_host] if is_loopback(host) else list(allow_host) or None
    application = app(
        models, api_keys=read_keys(api_key_file) if api_key_file else (), hosts=hosts, origins=allow_origin,
        pivot=pivot, device=device, dtype=dtype, engine=engine, store=store, limits=limits,
    )  # fmt: skip
    run(application, open_sockets(host, port), limits)
    return 0


def _serve_mcp(
    models: tuple[str, ...], pivot: str, device: str, dtype: str | None, engine: str, char_limit: int
) -> int:
    from pellucid.errors import ConfigError, format_install_command

    try:
        from pellucid.serve.mcp_server import run_mcp
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"--mcp requires {error.name}, which is not installed", format_install_command("mcp")
        ) from None
    from pellucid.serve.limits import ServerLimits

    limits = ServerLimits(characters=char_limit)
    run_mcp(models, pivot=pivot, device=device, dtype=dtype, engine=engine, limits=limits)
    return 0
