"""The page itself: what it holds, what its policy says, what it refuses. tests/browser opens it."""

import base64
import hashlib
import json
import re
import zlib

import numpy as np
import pytest

from pellucid.errors import ConfigError
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.from_weights import trace_from_weights
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.page import page, read_data_blocks
from pellucid.views.page_data import pack_vectors, pack_weights, payload


def attention(L: int = 5, M: int = 4, H: int = 2, kv: int = 2, **fields: object) -> AttentionTrace:
    """Two layers of made-up queries and keys."""
    rng = np.random.default_rng(0)
    q, k = (rng.normal(size=(2, heads, n, 8)).astype(np.float32) for heads, n in ((H, L), (kv, M)))
    return AttentionTrace(name="cross", queries="out", keys="src", q=q, k=k, **fields)  # type: ignore[arg-type]


def trace(one: AttentionTrace | None = None, text: str = "w") -> Trace:
    """A trace of that attention alone."""
    one = one or attention()
    rows, columns = (tuple(Token(text=f"{text}{i}", piece=f"{text}{i}") for i in range(n)) for n in one.size)
    about = {"name": "a model", "family": "encoder-decoder"}
    return Trace(model=about, sequences={"out": rows, "src": columns}, attentions={"cross": one}, faithfulness=1e-7)


def islands(html: str) -> dict[str, bytes]:
    """The page's data by name, inflated."""
    return {name: island.unpack() for name, island in read_data_blocks(html).items()}


def manifest(html: str) -> dict[str, object]:
    """What the page's viewer reads first."""
    found: dict[str, object] = json.loads(islands(html)["manifest"])
    return found


def test_the_policy_names_what_the_page_holds_and_allows_nothing_else() -> None:
    html = page([trace()], view="matrix")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    loader = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    packed = dict(re.findall(r'id="viewer-(script|style)">(.*?)</script>', html))
    viewer, style = (zlib.decompress(base64.b64decode(packed[name])).decode("utf-8") for name in ("script", "style"))

    def hashes(*texts: str) -> str:
        return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(t.encode()).digest()).decode()}'" for t in texts)

    assert len(loader) == 1
    assert "<style" not in html
    assert rules == {
        "default-src": "'none'", "script-src": hashes(loader[0], viewer), "style-src": hashes(style),
        "img-src": "data: blob:", "connect-src": "'none'", "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip


def test_a_page_names_no_address() -> None:
    assert re.findall(r"(?:src|href)=|https?:", page([trace()], view="matrix")) == []


@pytest.mark.parametrize("text", ["</script><b>", "\ud800", "\u2028", "a\0b", "\u202e"])
def test_tokens_and_title_cannot_leave_their_place(text: str) -> None:
    plain, hostile = (page([trace(text=one)], view="matrix", title=one) for one in ("w", text))
    of_tags = re.compile(r"<[!/a-zA-Z]")
    assert len(of_tags.findall(hostile)) == len(of_tags.findall(plain))
    hostile.encode("utf-8")
    assert manifest(hostile)["traces"][0]["sequences"]["src"]["text"][1] == text + "1"  # type: ignore[index]
    assert "\u202e" not in hostile


def test_equal_traces_give_equal_pages() -> None:
    assert page([trace()], view="matrix") == page([trace()], view="matrix")


@pytest.mark.parametrize(("view", "views"), [("heatmap", None), ("matrix", ["heads", "heatmap"])])
def test_a_view_that_there_is_not(view: str, views: list[str] | None) -> None:
    with pytest.raises(ConfigError, match="`heatmap`") as raised:
        page([trace()], view=view, views=views)
    assert "neuron" in str(raised.value.hint)


def test_no_trace() -> None:
    with pytest.raises(ConfigError, match="at least one trace"):
        page([], view="matrix")


@pytest.mark.parametrize(
    ("views", "store", "thumbnails"),
    [
        (["model"], None, True), (["matrix"], "weights", False), (["neuron"], "vectors", False),
        (["heads", "model"], "weights", True),
    ],
    ids=["model", "matrix", "neuron", "heads-model"],
)  # fmt: skip
def test_only_what_the_views_need_is_stored(views: list[str], store: str | None, thumbnails: bool) -> None:
    described = manifest(page([trace()], view=views[0], views=views))["traces"][0]["attentions"][0]  # type: ignore[index]
    assert described["store"] == store
    assert ("thumbnails" in described, "statistics" in described) == (thumbnails, thumbnails)


def test_long_texts_are_stored_as_queries_and_keys() -> None:
    for length, store in ((30, "weights"), (40, "vectors")):  # 4 K = 32
        described = manifest(page([trace(attention(length, length))], view="matrix"))["traces"][0]["attentions"][0]  # type: ignore[index]
        assert described["store"] == store


def test_weights_in_one_byte_and_in_two() -> None:
    one = attention()
    exact = np.stack([one.weights(1, head) for head in range(2)])
    packed, digits, error = pack_weights(one, 1)
    high, low = np.frombuffer(packed, np.uint8).reshape(2, *exact.shape).astype(float)
    assert digits == "u16"
    assert np.abs(((256 * high + low) / 65535) ** 2 - exact).max() == pytest.approx(error, rel=0.02)
    assert error < 2e-5
    many = attention(300, 300)
    packed, digits, error = pack_weights(many, 0)
    assert digits == "u8"
    found = (np.frombuffer(packed, np.uint8).reshape(2, 300, 300) / 255.0) ** 2
    off = np.abs(found - np.stack([many.weights(0, head) for head in range(2)])).max()
    assert off == pytest.approx(error, rel=0.02)
    assert error <= 0.004


@pytest.mark.parametrize(("length", "digits"), [(200, "f32"), (9_000, "f16")], ids=["few", "many"])
def test_few_vectors_keep_all_digits_and_the_error_is_that_of_the_page(length: int, digits: str) -> None:
    one = attention(length, 7, H=2, kv=2)
    described = manifest(page([trace(one)], view="neuron"))["traces"][0]["attentions"][0]  # type: ignore[index]
    assert {stored["digits"] for stored in described["stored"]} == {digits}
    expected = [pack_vectors(one, layer, exact=digits == "f32")[2] for layer in range(2)]
    assert described["error"] == max(expected)
    assert described["error"] < (1e-6 if digits == "f32" else 1e-3)
    assert digits == "f32" or described["error"] > 1e-6


def test_grouped_keys_are_stored_once() -> None:
    assert len(pack_vectors(attention(H=4, kv=1), 0)[0]) < len(pack_vectors(attention(H=4, kv=4), 0)[0])


def test_the_bias_comes_with_the_vectors_alone() -> None:
    bias = np.zeros((1, 2, 5, 4), np.float32)
    for view, there in (("neuron", True), ("matrix", False)):
        described = manifest(page([trace(attention(bias=bias))], view=view))["traces"][0]["attentions"][0]  # type: ignore[index]
        assert ("bias" in described) is there


def test_arrays_among_the_extras_become_islands() -> None:
    extras = {
        "mine": {
            "many": np.ones((2, 3)),
            "which": np.array([True]),
            "one": np.float32(0.5),
            "none": float("inf"),
            "list": [1, "x"],
        }
    }
    found = payload(
        [trace()], view="matrix", views=["matrix"], state={"words": True, "layer": 3}, extras=extras, title="t"
    )
    read = json.loads(found["manifest"])
    mine = read["extras"]["mine"]
    assert mine["many"] | {"array": ""} == {"array": "", "dtype": "float32", "shape": [2, 3]}
    assert np.frombuffer(found[mine["many"]["array"]], "<f4").tolist() == [1.0] * 6
    assert (mine["which"]["dtype"], mine["one"], mine["none"], mine["list"]) == ("uint8", 0.5, None, [1, "x"])
    assert read["state"] == {"words": "1", "layer": "3"}


def test_weights_from_elsewhere_claim_no_faithfulness() -> None:
    given = trace_from_weights([np.full((1, 2, 3, 3), 1 / 3)], ["a", "b", "c"])
    islands = payload([given], view="heads", views=["heads"], state={}, extras={}, title="")
    assert json.loads(islands["manifest"])["traces"][0]["faithfulness"] is None
