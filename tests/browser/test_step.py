"""The walk through the equations: each number is the model's, each sum adds up, each source is there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.model.attention_positions import apply_rotary, compute_rotary
from pellucid.views.view import View
from pellucid.views.view_options import ViewOptions
from pellucid.views.words import words
from tests.browser.conftest import Open, Opened
from tests.browser.living_pages import living, write_living_page
from tests.browser.node import VIEWER, in_node
from tests.browser.test_safety import CORPUS

pytestmark = pytest.mark.browser

PACKAGE = Path(__file__).parents[2] / "src" / "pellucid"
FAMILIES: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm": "pre", "tie_embeddings": "all", "output_bias": True},
    "rotary": {
        "norm": "pre",
        "norm_type": "rms",
        "positions": "rotary",
        "gated_feed_forward": True,
        "bias": False,
        "num_kv_heads": 1,
    },
    "relative": {"positions": "relative", "activation": "gelu", "embedding_norm": True},
    "decoder": {"family": "decoder", "positions": "learned", "norm": "pre"},
    "classifier": {"family": "classifier", "classifier_activation": "tanh", "scale_embeddings": False},
}


def opened_walk(open_page: Open, tmp_path: Path, name: str = "pre", **state: Any) -> tuple[Opened, Any, Any]:
    task, trace = living(**FAMILIES[name])
    path = write_living_page(tmp_path / "living.html", task, [trace], "step", ["text", "matrix"])
    return open_page.file(path, {"language": "en", **state}), task.model, trace  # type: ignore[attr-defined]


def numbers(text: str) -> list[float]:
    return [float(one.replace("−", "-")) for one in re.findall(r"[−-]?\d+(?:\.\d+)?(?:e[−-]?\d+)?", text)]


def values(opened: Opened, part: str = ".lesson .line") -> list[float]:
    """The numbers at the right of each line."""
    texts: list[str] = opened.page.locator(f"{part} > .value").all_inner_texts()
    return [numbers(text.split("=")[-1])[-1] for text in texts if numbers(text)]


def steps(opened: Opened) -> Iterator[str]:
    """Goes from step to step, to the last one."""
    for _ in range(200):
        yield opened.ask("p.get('step.at')") or "first"
        if opened.page.locator(".pace.forward").is_disabled():
            return
        opened.page.locator(".pace.forward").click()
        opened.settle()
    raise AssertionError("the walk has no end")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_step_has_its_formula_its_sentence_and_sums_that_add_up(
    open_page: Open, tmp_path: Path, name: str
) -> None:
    opened, model, _ = opened_walk(open_page, tmp_path, name)
    seen = []
    for at in steps(opened):
        seen.append(at)
        assert opened.page.inner_text(".lesson h2"), at
        assert len(opened.page.inner_text(".lesson .says")) > 40, at
        assert opened.page.locator(".lesson math").count() == 1, at
        assert re.search(
            r"(section \d|not in the paper).*\w+/\w+\.py · \w+", opened.page.inner_text(".lesson .source")
        ), at
        for line in opened.page.locator(".lesson .sum", has_text="=").all_inner_texts():
            adds_up(line, at)
    config = model.config
    layers = config.num_encoder_layers + config.num_decoder_layers
    assert len(seen) == len(set(seen)) == int(opened.page.inner_text(".count").split(" of ")[1])
    assert sum(at.endswith(".values") for at in seen) == layers + (2 if name not in {"decoder", "classifier"} else 0)
    assert sum(at.endswith(".inner") for at in seen) == layers
    assert ("encoder.output.classes" if name == "classifier" else "decoder.output.probabilities") == seen[-1]
    assert any(at.endswith(".mask") for at in seen) is (name != "classifier")
    assert any(at.endswith(".turn") for at in seen) is (name == "rotary")


def adds_up(line: str, at: str) -> None:
    """Checks a sum of few terms: what stands before the last equals sign gives what stands behind it."""
    left, _, right = line.rpartition("=")
    said = (left.partition("=")[2] or left).replace("−", "-").replace("·", "*").strip()
    written = re.sub(r"√(\d+)", r"(\1 ** 0.5)", said)
    if not re.fullmatch(r"[\d\s.()*/+-]+", written):
        return  # a long sum, or one with functions in it
    computed = eval(compile(written, "sum", "eval"), {})  # digits and signs alone
    assert computed == pytest.approx(numbers(right)[0], abs=0.06), (at, line)


def test_the_terms_of_a_long_sum_are_all_there(open_page: Open, tmp_path: Path) -> None:
    opened, _, _ = opened_walk(open_page, tmp_path, "pre", **{"step.at": "encoder.1.self_attn.project", "head": 1})
    opened.page.locator(".lesson details summary").first.click()
    terms = opened.page.locator(".lesson details .numbers").first.inner_text().split(" + ")
    line = opened.page.locator(".lesson .sum").first.inner_text()
    assert len(terms) == 16
    products = sum(a * b for a, b in (numbers(term) for term in terms))
    bias, result = numbers(line)[-2:]
    assert products + bias == pytest.approx(result, abs=0.1)


def parts(model: Any, trace: Any) -> dict[str, torch.Tensor]:
    """What PyTorch computes of the first cross-attention, in the paper's order, of a model with its norms first."""
    ids = {name: torch.tensor([[token.id for token in trace.sequences[name]]]) for name in ("src", "tgt")}
    with torch.no_grad():
        memory = model.encode(ids["src"])
        x, layer = model.tgt_embedding(ids["tgt"]), model.decoder.layers[0]
        causal = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()[None, None]
        x = x + layer.self_attn(layer.self_attn_norm(x), None, mask=causal)
        normed = layer.cross_attn_norm(x)
        q, k, v = layer.cross_attn.project(normed, memory)
        scores = (q @ k.transpose(-2, -1) * q.size(-1) ** -0.5)[0]
        weights = scores.softmax(-1)
        heads = weights @ v[0]
        added = layer.cross_attn.out_proj(layer.cross_attn.join_heads(heads[None]))[0]
        logits = model(ids["src"], ids["tgt"])[0]
    return {
        "x": x[0],
        "q": q[0],
        "k": k[0],
        "scores": scores,
        "weights": weights,
        "heads": heads,
        "added": added,
        "logits": logits,
    }


def test_the_numbers_are_those_of_pytorch(open_page: Open, tmp_path: Path) -> None:
    opened, model, trace = opened_walk(open_page, tmp_path, "pre")
    found, row, head, d = parts(model, trace), 1, 1, 3
    opened.set(**{"step.write": row, "head": head, "step.head": d, "step.model": d})
    opened.set(**{"step.at": "decoder.0.cross_attn.project"})
    assert values(opened, ".lesson > .lines .line")[1] == pytest.approx(float(found["q"][head, row, d]), abs=0.006)
    opened.set(**{"step.at": "decoder.0.cross_attn.scores"})
    assert values(opened)[3:] == pytest.approx(found["scores"][head, row].tolist(), abs=0.006)
    opened.set(**{"step.at": "decoder.0.cross_attn.softmax"})
    assert values(opened) == pytest.approx(found["weights"][head, row].tolist(), abs=6e-4)
    opened.set(**{"step.at": "decoder.0.cross_attn.values"})
    assert values(opened)[0] == pytest.approx(float(found["heads"][head, row, d]), abs=0.006)
    opened.set(**{"step.at": "decoder.0.cross_attn.join"})
    assert values(opened)[1] == pytest.approx(float(found["added"][row, d]), abs=0.006)
    opened.set(**{"step.at": "decoder.0.cross_attn.add"})
    expected = [found["x"][row, d], found["added"][row, d], (found["x"] + found["added"])[row, d]]
    assert values(opened) == pytest.approx([float(one) for one in expected], abs=0.006)
    opened.set(**{"step.at": "decoder.output.logits"})
    best = found["logits"][row].topk(10).values.tolist()
    assert values(opened, ".lesson .bars .line")[:10] == pytest.approx(best, abs=0.006)
    opened.set(**{"step.at": "decoder.output.probabilities"})
    best = found["logits"][row].softmax(-1).topk(10).values.tolist()
    assert values(opened, ".lesson .bars .line")[:10] == pytest.approx(best, abs=6e-4)


def formula(opened: Opened, at: str) -> str:
    """The formula of a step, its pieces one behind the other."""
    opened.set(**{"step.at": at})
    return str(opened.page.locator(".lesson math").text_content()).replace("\u2002", " ").replace("\u2003", " ")


@pytest.mark.parametrize(
    "biases",
    [
        {"bias": True, "qkv_bias": False, "output_bias": True},
        {"bias": False, "qkv_bias": True, "output_bias": False},
        {"bias": False, "qkv_bias": None, "output_bias": True},
    ],
)
def test_formulas_have_the_biases_of_the_model(open_page: Open, tmp_path: Path, biases: dict[str, Any]) -> None:
    task, trace = living("decoder", norm="pre", **biases)
    path = write_living_page(tmp_path / "biases.html", task, [trace], "step")
    opened = open_page.file(path, {"language": "en"})  # type: ignore[attr-defined]
    layer, bias = "decoder.0", biases["bias"]
    assert formula(opened, f"{layer}.self_attn.norm").endswith("⊙γ+β") is bias
    assert formula(opened, f"{layer}.self_attn.project").count("+b") == (3 if biases["qkv_bias"] else 0)
    assert formula(opened, f"{layer}.self_attn.join").endswith("WO+b") is bias
    assert formula(opened, f"{layer}.feed_forward.outer").endswith("W2+b2") is bias
    assert formula(opened, "decoder.output.logits").endswith("+bw") is biases["output_bias"]


def test_rotary_positions_turn_the_pairs_that_the_model_turns(open_page: Open, tmp_path: Path) -> None:
    task, trace = living(positions="rotary", rotary_base=500.0)
    path = write_living_page(tmp_path / "rotary.html", task, [trace], "step")
    opened = open_page.file(path, {"language": "en"})  # type: ignore[attr-defined]
    assert formula(opened, "decoder.0.self_attn.turn") == "(qi,qi+dk/2)↦ rotation by pos·500−2i/dk"
    x = torch.randn(1, 1, 1, 8)
    turned = apply_rotary(x, compute_rotary(torch.tensor([3]), 8, 500.0, 1.0, ()))
    for i in range(4):
        angle = torch.tensor(3 * 500 ** (-2 * i / 8))
        expected = x[..., i] * angle.cos() - x[..., i + 4] * angle.sin()
        torch.testing.assert_close(turned[..., i], expected)


def test_queries_that_are_turned_already_say_so(open_page: Open, tmp_path: Path) -> None:
    opened, _, _ = opened_walk(open_page, tmp_path, "rotary")
    for at, turned in (("self_attn", True), ("cross_attn", False)):
        opened.set(**{"step.at": f"decoder.0.{at}.project"})
        assert ("after the next step, which turns them" in opened.page.inner_text(".lesson")) is turned


def test_the_mask_hides_what_comes_later(open_page: Open, tmp_path: Path) -> None:
    opened, _, trace = opened_walk(open_page, tmp_path, **{"step.at": "decoder.0.self_attn.mask", "step.write": 1})
    count = len(trace.sequences["tgt"])
    assert count > 3
    assert opened.page.locator(".lesson .struck").count() == count - 2
    assert opened.page.locator(".lesson .struck .value").first.inner_text().endswith("→ −∞")
    opened.press("ArrowDown")
    assert opened.page.locator(".lesson .struck").count() == count - 3


def test_everything_by_keyboard(open_page: Open, tmp_path: Path) -> None:
    opened, _, _ = opened_walk(open_page, tmp_path)
    opened.press("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")
    assert opened.ask("p.get('step.at')") == "encoder.0.self_attn.scores"
    assert opened.told().startswith("Scores: query times key. How well does the query fit")
    opened.press("]")
    assert opened.ask("p.get('step.at')") == "encoder.1.self_attn.scores"
    opened.press("]", "[", "ArrowLeft", ".", "n", "n", "ArrowDown", "ArrowDown", "ArrowUp")
    assert opened.ask("['step.at', 'head', 'step.head', 'step.read'].map((key) => p.get(key))") == [
        "encoder.0.self_attn.project", "1", "2", "2",
    ]  # fmt: skip
    opened.press("End")
    assert opened.page.inner_text(".lesson h2") == "Softmax: the next word"
    opened.press("Home")
    assert opened.page.inner_text(".count") == f"1 of {opened.page.inner_text('.count').split()[-1]}"


def test_keys_that_come_faster_than_the_steps_all_count(open_page: Open, tmp_path: Path) -> None:
    opened, _, _ = opened_walk(open_page, tmp_path, **{"step.at": "encoder.0.self_attn.softmax", "step.read": 0})
    keys = ["ArrowRight", "ArrowDown", "ArrowDown", "]", ".", "ArrowLeft", "ArrowDown"]
    pressed = "a.forEach((key) => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })))"
    opened.ask(pressed, keys)
    opened.settle()
    assert opened.ask("['step.at', 'head', 'step.read'].map((key) => p.get(key))") == [
        "encoder.1.self_attn.softmax", "1", "3",
    ]  # fmt: skip
    assert opened.page.inner_text(".lesson h2").startswith("Softmax")
    assert opened.page.locator(".reading [aria-pressed='true']").inner_text() == "den"


def test_the_focus_stays_where_it_was(open_page: Open, tmp_path: Path) -> None:
    opened, _, _ = opened_walk(open_page, tmp_path, **{"step.at": "encoder.0.self_attn.softmax"})
    word = opened.page.locator(".lesson button.name").nth(3)
    word.focus()
    opened.press("Enter")
    assert opened.page.evaluate("document.activeElement.textContent") == word.inner_text()
    assert word.get_attribute("aria-pressed") == "true"


def test_the_next_word_is_walked_through_anew(open_page: Open, tmp_path: Path) -> None:
    opened, _, trace = opened_walk(open_page, tmp_path, **{"step.at": "decoder.output.probabilities", "step.write": 0})
    written = trace.sequences["out"][0].text
    assert f"Written here: “{written}”." in opened.page.inner_text(".lesson")
    opened.page.get_by_role("button", name="Go on").click()
    opened.settle()
    assert opened.ask("[p.get('step.at'), p.get('step.write')]") == ["decoder.embedding.embedding", "1"]
    assert f"“{written}” is number" in opened.page.inner_text(".lesson")


def test_a_strip_tells_its_numbers(open_page: Open, tmp_path: Path) -> None:
    opened, model, trace = opened_walk(open_page, tmp_path, **{"step.numbers": 1})
    listed = numbers(opened.page.locator(".lesson .numbers").first.inner_text())
    expected = model.src_embedding.tokens.weight[trace.sequences["src"][1].id].tolist()
    assert listed == pytest.approx(expected, abs=0.006)
    strip = opened.page.locator(".lesson .strip").first
    box = strip.bounding_box()
    strip.click(position={"x": box["width"] * 10.5 / 16, "y": 8})
    opened.settle()
    assert opened.page.locator(".lesson .value").first.inner_text().startswith("E11 = ")


def test_a_head_that_is_off_gives_zeros(open_page: Open, tmp_path: Path) -> None:
    opened, _, _ = opened_walk(open_page, tmp_path)
    switched = "p.app.live.trace('ein Hund', null, { off: ['encoder.self.0.1'] }).then((found) => p.app.show(found))"
    opened.ask(switched)
    opened.set(**{"step.at": "encoder.0.self_attn.values", "head": 1})
    assert "This head is switched off" in opened.page.inner_text(".lesson")
    opened.set(head=0)
    assert "This head is switched off" not in opened.page.inner_text(".lesson")


def test_a_word_that_is_hidden_has_a_mask(open_page: Open, tmp_path: Path) -> None:
    opened, _, _ = opened_walk(open_page, tmp_path)
    opened.ask("p.app.live.trace('ein Hund jagt', null, { hidden: [1] }).then((found) => p.app.show(found))")
    opened.set(**{"step.at": "encoder.1.self_attn.mask"})
    assert "These words are hidden" in opened.page.inner_text(".lesson")
    assert opened.page.locator(".lesson .struck .name").all_inner_texts() == ["Hund"]


def test_a_long_text_is_fetched_layer_by_layer(open_page: Open, tmp_path: Path) -> None:
    task, _ = living("decoder", max_positions=160)
    trace = task.trace(" ".join(["ein", "Hund"] * 70))
    path = write_living_page(tmp_path / "long.html", task, [trace], "step")
    opened = open_page.file(path, {"language": "en", "step.at": "decoder.1.self_attn.scores", "step.write": 130})  # type: ignore[attr-defined]
    assert "24 of 141 tokens are shown" in opened.page.inner_text(".lesson").replace("25 of", "24 of")
    assert opened.page.evaluate("document.querySelectorAll('*').length") < 2500
    opened.press("ArrowRight", "[")
    assert opened.ask("p.get('step.at')") == "decoder.0.self_attn.mask"


def test_another_long_text_is_walked_through_by_its_own_numbers(open_page: Open, tmp_path: Path) -> None:
    task, _ = living("decoder", max_positions=160)
    path = write_living_page(tmp_path / "long.html", task, [task.trace("ein " * 140)], "step")
    opened = open_page.file(path, {"language": "en", "step.at": "decoder.embedding.embedding", "step.write": 3})  # type: ignore[attr-defined]
    number = numbers(opened.page.inner_text(".lesson .sum"))[0]
    opened.ask("p.app.live.trace('Hund '.repeat(140)).then((found) => p.app.show(found))")
    assert "“Hund” is number" in opened.page.inner_text(".lesson")
    assert numbers(opened.page.inner_text(".lesson .sum"))[0] == number + 1


def test_what_is_left_out_of_a_long_text_is_said(open_page: Open, tmp_path: Path) -> None:
    task, _ = living(max_positions=160)
    trace = task.trace("ein " * 60, "a dog " * 20)
    path = write_living_page(tmp_path / "long.html", task, [trace], "step")
    opened = open_page.file(path, {"language": "en", "step.at": "encoder.output.memory"})  # type: ignore[attr-defined]
    count = len(trace.sequences["src"])
    assert f"The first 40 of {count} tokens are shown." in opened.page.inner_text(".lesson")
    assert opened.page.locator(".lesson .line").count() == 40
    opened.set(**{"step.at": "decoder.0.self_attn.mask", "step.write": 3})
    count = len(trace.sequences["tgt"])
    said = f"24 of {count} tokens are shown: hidden ones, and those with the largest weights."
    assert said in opened.page.inner_text(".lesson")
    assert opened.page.locator(".lesson .struck").count() >= 20


def test_the_inner_layer_is_as_wide_as_the_model_says(open_page: Open, tmp_path: Path) -> None:
    task, trace = living("decoder", d_model=88, d_ff=120)
    path = write_living_page(tmp_path / "wide.html", task, [trace], "step")
    state = {"language": "en", "step.at": "decoder.0.feed_forward.inner", "step.write": 2}
    opened = open_page.file(path, state)  # type: ignore[attr-defined]
    said = opened.page.inner_text(".lesson")
    assert "first up to 120 numbers." in said
    assert " of 120 units are above 0 here." in said
    assert opened.page.get_by_role("img", name="120 numbers from").count() == 2


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("language", ["en", "ko"])
def test_it_fits_its_window(open_page: Open, tmp_path: Path, width: int, language: str) -> None:
    task, trace = living(**FAMILIES["pre"])
    path = write_living_page(tmp_path / "wide.html", task, [trace], "step")
    opened = open_page.file(path, {"language": language}, viewport={"width": width, "height": 844})  # type: ignore[attr-defined]
    for at in (
        "encoder.embedding.positions",
        "encoder.0.self_attn.project",
        "decoder.0.self_attn.mask",
        "decoder.output.logits",
    ):
        opened.set(**{"step.at": at})
        assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), at
    assert opened.page.inner_text(".lesson h2") == (
        "로짓: 단어마다 숫자 하나" if language == "ko" else "Logits: a number for every word"
    )


def test_hostile_words_stay_words(open_page: Open, tmp_path: Path) -> None:
    words = [one.replace(" ", "_") for one in CORPUS if one.isprintable()]
    task, trace = living(words=words, text=" ".join(words[:5]))
    path = write_living_page(tmp_path / "hostile.html", task, [trace], "step")
    opened = open_page.file(path, {"language": "en"})  # type: ignore[attr-defined]
    for _ in steps(opened):
        assert (
            opened.page.evaluate(
                "document.querySelectorAll('img, svg, base, body script:not([type]) ~ script[src]').length"
            )
            == 0
        )
    assert opened.page.evaluate("window.__p") is None


def test_each_source_is_there() -> None:
    sources = in_node('return (await viewer("steps/sources.js")).SOURCES;')
    assert len(sources) > 15
    for kind, source in sources.items():
        path, _, name = source["code"].partition("::")
        tree = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
        body: Any = tree.body
        for part in name.split("."):
            node = next((one for one in body if getattr(one, "name", None) == part), None)
            assert node is not None, (kind, source["code"])
            body = node.body


def test_the_page_of_a_trace_alone_does_not_offer_it() -> None:
    _, trace = living()
    assert "step" not in View(name="matrix", trace=trace, choice=ViewOptions()).page_views("all")


def test_every_text_is_there_in_korean() -> None:
    files = [
        "views/step.js",
        "views/text.js",
        "views/lens.js",
        "views/contributions.js",
        "shell/heads.js",
        "data/explained.js",
    ]
    files += [str(path.relative_to(VIEWER)) for path in sorted((VIEWER / "steps").glob("*.js"))]
    used: set[str] = set()
    for name in files:
        used |= set(re.findall(r'\bt\("((?:[^"\\]|\\.)*)"', (VIEWER / name).read_text(encoding="utf-8")))
    korean = in_node(
        'const all = {}, names = ["viewing", "texts", "steps"];'
        "for (const name of names) Object.assign(all, (await viewer(`shell/ko/${name}.js`)).ko);"
        'const { SOURCES } = await viewer("steps/sources.js");'
        "return { known: Object.entries(all), titles: Object.values(SOURCES).map((one) => one.title) };"
    )
    known = dict(korean["known"]) | dict(words().values())
    assert {text for text in used | set(korean["titles"]) if text not in known} == set()
    for english, text in known.items():
        assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", text)), english
