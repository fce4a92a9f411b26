"""Hostile and careless requests: each is refused in words, none fails the server, none keeps it waiting."""

import asyncio
import gzip
import json
import logging
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pellucid.serve import ServerLimits, app
from pellucid.serve.gate import LOOPBACK
from pellucid.serve.running import open_sockets
from tests.unit.serve.serving import Server, run_application, serve

JSON = {"Content-Type": "application/json"}
MULTIPART = {"Content-Type": "multipart/form-data; boundary=line"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PAIR = '"source": "de", "target": "en"'
GOOD = json.dumps({"q": "a b", "source": "de", "target": "en"}).encode()
ADDRESSES = ("/translate", "/v2/translate", "/v1/chat/completions", "/api/translate", "/detect", "/v2/glossaries")


@pytest.mark.parametrize("path", ADDRESSES)
@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"[" * 100_000, JSON, 400),
        (b'{"q": ' * 50_000, JSON, 400),
        (b'{"q": ' + b"9" * 5000 + b"}", JSON, 400),
        (b'{"q": NaN}', JSON, 400),
        (b'{"q": Infinity}', JSON, 400),
        (b'{"q": 1e999}', JSON, 400),
        (b'{"q": "\xff\xfe"}', JSON, 400),
        (b"not json", JSON, 400),
        (b'"a"', JSON, 400),
        (b"7", JSON, 400),
        (b"\x00" * 100, JSON, 400),
        (b"", JSON, 400),
        (b"q=%ff%fe", FORM, 400),
        (b"q=\xff", FORM, 400),
        (b"q=a&" * 5000, FORM, 400),
        (gzip.compress(GOOD, mtime=0), {**JSON, "Content-Encoding": "gzip"}, 415),
        (GOOD, {**JSON, "Content-Encoding": "identity, gzip"}, 415),
        (GOOD, {"Content-Type": "application/json; charset=rot13"}, 415),
        (GOOD, {"Content-Type": "image/png"}, 415),
        (b"x", {"Content-Type": "multipart/form-data"}, 400),
        (b"x", MULTIPART, 400),
        (b"--line\r\nContent-Disposition: form-data\r\n\r\na\r\n--line--", MULTIPART, 400),
        (b"a" * (3 << 20), JSON, 413),
    ],
)  # fmt: skip
def test_a_body_that_is_no_request_is_refused(
    server: Server, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    found = server.ask("POST", path, body=body, headers=headers)
    assert found.status == status
    assert isinstance(found.json, dict)
    assert not [word for word in ("Traceback", "/site-packages", "/src/", "starlette") if word in found.text]


def test_halves_of_surrogate_pairs_become_replacement_characters(server: Server) -> None:
    for text in ("\\ud83d", "a \\ud800 b", "\\udc00\\ud800"):
        body = f'{{"q": "{text}", {PAIR}, "format": "text"}}'.encode()
        found = server.ask("POST", "/translate", body=body, headers=JSON)
        assert found.status == 200
        assert found.json["translatedText"] is not None
    for path, field in (("/translate", "source"), ("/v2/translate", "target_lang"), ("/v1/chat/completions", "model")):
        body = f'{{"q": "a", "text": ["a"], "{field}": "\\ud800"}}'.encode()
        assert 400 <= server.ask("POST", path, body=body, headers=JSON).status < 500


def test_a_byte_order_mark_and_utf_16_are_read(server: Server) -> None:
    expected = server.translate("a b")
    for encoding in ("utf-8-sig", "utf-16"):
        assert server.ask("POST", "/translate", body=GOOD.decode().encode(encoding), headers=JSON).json == expected


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("LOCALHOST:80", 200), ("127.0.0.1", 200), ("127.0.0.1:1", 200), ("[::1]", 200),
        ("[::1]:8000", 200), ("evil.example", 421), ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:8000", 421),
        ("", 421), ("127.0.0.1:80@evil.example", 421), ("[::1", 421), ("::1", 421), ("0.0.0.0", 421),
    ],
)  # fmt: skip
def test_only_names_of_this_machine_are_served_on_the_loopback(server: Server, host: str, status: int) -> None:
    for method, path, body in (("POST", "/translate", GOOD), ("GET", "/health", None)):
        found = server.ask(method, path, body=body, headers={**JSON, "Host": host})
        assert found.status == status


def test_another_name_by_an_option(finished_run: Path) -> None:
    with serve([f"de-en={finished_run}"], hosts=["translate.example"]) as running:
        for host, status in (("Translate.Example:443", 200), ("localhost", 421)):
            assert running.ask("GET", "/health", headers={"Host": host}).status == status


def test_pages_of_other_sites_may_not_call_it(server: Server) -> None:
    for origin in ("https://evil.example", "null", "http://localhost:1", "moz-extension://a"):
        found = server.ask("POST", "/translate", body=GOOD, headers={**JSON, "Origin": origin})
        assert found.status == 403
        assert "access-control-allow-origin" not in found.headers
        preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        assert server.ask("OPTIONS", "/translate", headers=preflight).status == 405
    own = {**JSON, "Origin": f"http://127.0.0.1:{server.port}"}
    assert server.ask("POST", "/translate", body=GOOD, headers=own).status == 200


def test_pages_of_named_origins_may_call_it_also_with_a_key(finished_run: Path) -> None:
    page = "https://page.example"
    with serve([f"de-en={finished_run}"], origins=[page], api_keys=["secret"]) as running:
        preflight = {"Origin": page, "Access-Control-Request-Method": "POST"}
        for path in ("/translate", "/v2/translate", "/v1/models"):
            found = running.ask("OPTIONS", path, headers=preflight)
            assert (found.status, found.headers["access-control-allow-origin"]) == (204, page)
        body = json.dumps({"q": "a", "source": "de", "target": "en", "api_key": "secret"}).encode()
        found = running.ask("POST", "/translate", body=body, headers={**JSON, "Origin": page})
        assert (found.status, found.headers["access-control-allow-origin"]) == (200, page)
        assert "access-control-allow-credentials" not in found.headers


def test_below_a_path_keys_and_shapes_are_the_same(finished_run: Path) -> None:
    application = app([f"de-en={finished_run}"], api_keys=["secret"], hosts=LOOPBACK, device="cpu", engine="torch")

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await application({**scope, "root_path": "/below"}, receive, send)

    with run_application(mounted) as running:
        for path, status, shape in (
            ("/v2/usage", 403, "message"),
            ("/v1/models", 401, "error"),
            ("/none", 404, "error"),
        ):
            found = running.ask("GET", f"/below{path}")
            assert (found.status, list(found.json)) == (status, [shape])
        assert running.ask("GET", "/below/health").json == {"status": "ok"}
        files = {"source": "de", "target": "en", "api_key": "secret", "file": ("a.txt", b"a b")}
        address = running.ask("POST", "/below/translate_file", files=files).json["translatedFileUrl"]
        assert address.startswith(f"{running.url}/below/download_file/")


def test_smuggled_requests_close_the_connection(server: Server) -> None:
    head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n".encode()
    both = head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\n\r\n"
    twice = head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"
    for data in (both, twice):
        found = server.send(data, until_closed=True)
        assert found.startswith(b"HTTP/1.1 400")
        assert found.count(b"HTTP/1.1") == 1
    assert server.send(b"\x16\x03\x01\x02\x00", until_closed=True).startswith(b"HTTP/1.1 400")
    found = server.send(b"GET /health HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", until_closed=True)
    assert found.startswith(b"HTTP/1.1 400") or not found, "the answer may be lost with the connection"


@pytest.mark.slow
def test_a_request_that_trickles_ends(finished_run: Path) -> None:
    """A silent connection, a header and a body that never end, on any route."""
    begun = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
    with serve([f"de-en={finished_run}"], ServerLimits(body_seconds=0.3)) as running:
        bodies = [begun % path for path in (b"/translate", b"/v2/translate", b"/health", b"/nothing")]
        for data in (b"", b"GET /health HTTP/1.1\r\nHost: local", *bodies):
            with socket.create_connection(("127.0.0.1", running.port), timeout=20) as connection:
                connection.sendall(data)
                while connection.recv(65536):  # ends, or raises a TimeoutError
                    pass
        assert running.ask("GET", "/health").status == 200


def test_health_and_metrics_label_routes_by_their_templates(server: Server) -> None:
    assert server.ask("GET", "/health").json == {"status": "ok"}
    assert server.ask("GET", "/ready").json == {"status": "ready"}
    server.translate("a b")
    server.ask("GET", "/v2/document/some-name-of-a-client")
    for number in range(5):
        server.ask("GET", f"/scanned/{number}.php")
    found = server.ask("GET", "/metrics").text
    assert 'pellucid_requests_total{method="POST",route="/translate",status="200"}' in found
    assert 'route="/v2/document/{name}"' in found
    assert "some-name" not in found
    assert ".php" not in found
    assert "pellucid_waiting_tokens 0.0" in found


def test_the_access_log_has_routes_and_no_texts(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pellucid.access"):
        server.ask("POST", "/translate?api_key=hidden", {"q": "geheim", "source": "de", "target": "en"})
        server.ask("GET", "/download_file/geheim.txt")
        server.ask("GET", "/geheim")
        expected = {"POST /translate 200", "GET /download_file/{name} 404", "GET other 404"}
        deadline = time.monotonic() + 20
        while not expected <= {line.rsplit(" ", 2)[0] for line in caplog.messages}:  # and late lines of other tests
            assert time.monotonic() < deadline, caplog.messages
            time.sleep(0.01)
    assert "geheim" not in caplog.text
    assert "hidden" not in caplog.text


def test_the_specification_names_all_addresses(server: Server) -> None:
    found = server.ask("GET", "/spec").json
    assert found["openapi"].startswith("3.")
    assert {"/translate", "/v2/translate", "/v1/chat/completions", "/api/translate"} <= set(found["paths"])
    assert (
        "q" in found["paths"]["/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]["required"]
    )


@pytest.mark.slow
def test_a_full_server_says_when_to_come_again_in_each_shape(finished_run: Path) -> None:
    """One long text waits; a second request finds the queue full. Health answers, and the long text is not lost."""
    with serve([f"de-en={finished_run}"], ServerLimits(queue_tokens=50)) as running:
        expected = running.translate("a b c d e f")["translatedText"]
        found: list[object] = []
        text = "\n".join(["a b c d e f"] * 3000)
        thread = threading.Thread(target=lambda: found.append(running.translate(text)))
        thread.start()
        deadline = time.monotonic() + 60
        while "pellucid_waiting_tokens 0.0" in running.ask("GET", "/metrics").text:
            assert time.monotonic() < deadline
        table = {"q": "a", "text": ["a"], "source": "de", "target": "en", "source_lang": "DE", "target_lang": "EN",
                 "model": "de-en", "messages": [{"role": "user", "content": "a"}]}  # fmt: skip
        for path, shape in (("/translate", "error"), ("/v2/translate", "message"), ("/v1/chat/completions", "error")):
            answer = running.ask("POST", path, table)
            assert (answer.status, list(answer.json)) == (503, [shape])
            assert int(answer.headers["retry-after"]) >= 1
        assert running.ask("POST", "/translate", {**table, "q": ["a"]}).status == 503, "a list of one, too"
        assert running.ask("GET", "/health").json == {"status": "ok"}
        thread.join(120)
        assert found == [{"translatedText": "\n".join([expected] * 3000)}]
        assert running.ask("POST", "/translate", table).status == 200


@pytest.mark.slow
def test_the_work_of_a_client_that_left_is_dropped(finished_run: Path) -> None:
    with serve([f"de-en={finished_run}"]) as running:
        running.translate("a b")
        body = json.dumps({"q": "\n".join(["a b c d e f"] * 8_000), "source": "de", "target": "en"}).encode()
        head = "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", running.port), timeout=20) as connection:
            connection.sendall(head.encode() + body)
            deadline = time.monotonic() + 60
            while "pellucid_waiting_tokens 0.0" in running.ask("GET", "/metrics").text:
                assert time.monotonic() < deadline
        while "pellucid_waiting_tokens 0.0" not in running.ask("GET", "/metrics").text:
            assert time.monotonic() < deadline
        expected = running.translate("a b")
        assert expected == running.translate("a b")
        assert 'status="499"' in running.ask("GET", "/metrics").text


def test_small_answers_do_not_wait_for_more_to_send() -> None:
    """asyncio sets TCP_NODELAY by the protocol of the socket that listens."""

    async def accept() -> int:
        [listening] = open_sockets("127.0.0.1", 0)
        accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def look(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            accepted.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(look, sock=listening):
            _, client = await asyncio.open_connection(*listening.getsockname())
            found = await asyncio.wait_for(accepted, 20)
            client.close()
            await client.wait_closed()
            return found

    assert asyncio.run(accept())
