"""What the server answers to its page: the numbers of Python's own inspection of the same model."""

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid.analysis.ablation import Head, disable_heads
from pellucid.tasks.translator import Translator
from pellucid.tracing.trace import Trace
from pellucid.views.page import read_data_blocks
from tests.unit.serve.serving import Server, serve

TEXT = "a b c d"


def ask(server: Server, method: str, *args: Any, status: int = 200) -> Any:
    table = {"source": "de", "target": "en", "method": method, "args": list(args)}
    found = server.ask("POST", "/api/model", table)
    assert found.status == status, found.text
    return found.json["result"] if status == 200 else found.json["error"].removeprefix("Invalid request: ")


@pytest.fixture(scope="module")
def trace(translator: Translator) -> Trace:
    return translator.trace(TEXT)


def ids(trace: Trace) -> dict[str, list[int | None]]:
    return {name: [token.id for token in trace.sequences[name]] for name in ("src", "tgt", "out")}


def test_the_page_names_its_pair_and_asks_no_other_machine(server: Server) -> None:
    found = server.ask("GET", "/")
    assert found.status == 200
    served = json.loads(read_data_blocks(found.text)["model.server"].unpack())
    assert (served["source"], served["target"], served["pairs"]) == ("de", "en", {"de": ["en"]})
    [policy] = re.findall('http-equiv="Content-Security-Policy" content="([^"]*)"', found.text)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src 'self'" in policy
    assert "worker-src" not in policy
    assert not re.search(r"https?://", found.text)
    assert found.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert server.ask("GET", "/?source=de&target=en").text == found.text
    assert server.ask("GET", "/?source=de&target=fr").status == 404


def test_a_page_of_each_pair(finished_run: Path) -> None:
    with serve([f"de-en={finished_run}", f"en-fr={finished_run}"], pivot="en") as running:
        page = running.ask("GET", "/?source=EN&target=fr").text
        served = json.loads(read_data_blocks(page)["model.server"].unpack())
        assert (served["source"], served["pairs"]) == ("en", {"de": ["en"], "en": ["fr"]})
        table = {"source": "de", "target": "fr", "method": "about", "args": []}
        assert "two models" in running.ask("POST", "/api/model", table).json["error"]


def test_a_translation_with_the_probability_of_each_token(server: Server, translator: Translator) -> None:
    [expected] = translator.translate([TEXT], beam_size=3, n_best=3)
    found = ask(server, "translate", TEXT, {"nBest": 3, "top": 4})
    assert [each["text"] for each in found["alternatives"]] == [each.text for each in expected.alternatives]
    assert found["score"] == pytest.approx(expected.score, abs=1e-4)
    assert torch.tensor(found["probabilities"]).log().sum().item() == pytest.approx(expected.score, abs=1e-4)
    [forced] = translator.engine.log_probs(
        [translator.tokenizers.source.encode(TEXT)], [found["ids"]], translator.decode
    )
    assert found["parts"][0]["logProbs"] == pytest.approx(forced, abs=1e-5)
    assert [label["piece"] for label in found["labels"]] == [*expected.tokens, "</s>"]
    for top, id_ in zip(found["top"], [*found["ids"], 2], strict=True):
        assert top["probabilities"] == sorted(top["probabilities"], reverse=True)
        assert (len(top["ids"]), id_ in top["ids"] or top["probabilities"][-1] > 0) == (4, True)


def test_a_chosen_beginning_is_kept(server: Server) -> None:
    first = ask(server, "translate", TEXT, {"beamSize": 1})
    other = first["top"][0]["ids"][1]
    found = ask(server, "translate", TEXT, {"beamSize": 1, "prefix": [[other]]})
    assert found["ids"][0] == other
    assert found["probabilities"][0] == pytest.approx(first["top"][0]["probabilities"][1], rel=1e-4)


def test_heads_layers_and_words_are_left_out(server: Server, translator: Translator) -> None:
    whole = ask(server, "translate", TEXT, {"beamSize": 1})
    with disable_heads(translator.model, Head("cross", 0, 0)):
        [expected] = translator.translate([TEXT], beam_size=1, repair="off")
        scored = translator.score([TEXT], [whole["text"]])[0]
    assert ask(server, "translate", TEXT, {"beamSize": 1, "off": ["cross.0.0"]})["text"] == expected.text
    found = ask(server, "score", TEXT, whole["ids"], {"off": ["cross.0.0"]})
    assert sum(found["logProbs"]) == pytest.approx(scored, abs=1e-4)
    src = torch.tensor([[*translator.tokenizers.source.encode(TEXT), 2]])
    read = torch.tensor([[1, *whole["ids"]]])
    visible = torch.ones(1, 1, 1, src.size(1), dtype=torch.bool)
    visible[..., 1] = False
    with torch.inference_mode():
        logits = translator.model(src, read, visible)[0].log_softmax(-1)
    hidden = ask(server, "score", TEXT, whole["ids"], {"hidden": [1]})
    assert hidden["logProbs"] == pytest.approx(logits[range(read.size(1)), [*whole["ids"], 2]].tolist(), abs=1e-4)
    searched = ask(server, "translate", TEXT, {"beamSize": 1, "hidden": [1]})
    again = ask(server, "score", TEXT, searched["ids"], {"hidden": [1]})
    assert searched["score"] == pytest.approx(sum(again["logProbs"]), abs=1e-4), "search and pass hide the same"
    layers = len(translator.model.decoder.layers)
    skipped = ask(server, "score", TEXT, whole["ids"], {"layersOff": [f"decoder.{layers - 1}"]})
    with torch.inference_mode():
        x = translator.model.tgt_embedding(read)
        memory = translator.model.encode(src)
        for layer in translator.model.decoder.layers[:-1]:
            causal = torch.ones(read.size(1), read.size(1), dtype=torch.bool).tril()[None, None]
            x = layer(x, memory, causal, None)
        if translator.model.decoder.norm is not None:
            x = translator.model.decoder.norm(x)
        rows = translator.model.output_projection(x)[0].log_softmax(-1)
    assert skipped["logProbs"] == pytest.approx(rows[range(read.size(1)), [*whole["ids"], 2]].tolist(), abs=1e-4)
    assert ask(server, "translate", TEXT, {"beamSize": 1}) == whole, "other requests use the whole model"


def test_sampling_depends_on_the_seed(server: Server) -> None:
    drawn = [ask(server, "translate", TEXT, {"temperature": 3.0, "seed": seed})["ids"] for seed in (1, 1, 2, 3, 4)]
    assert drawn[0] == drawn[1]
    assert len({tuple(one) for one in drawn}) > 1


def test_a_trace_has_the_weights_of_python(server: Server, trace: Trace) -> None:
    found = ask(server, "trace", TEXT, None, {"search": True})
    described = found["trace"]
    assert [one["name"] for one in described["attentions"]] == list(trace)
    assert described["sequences"]["out"]["piece"] == [token.piece for token in trace.sequences["out"]]
    assert described["faithfulness"] < 1e-4
    cross = next(one for one in described["attentions"] if one["name"] == "cross")
    data = zlib.decompress(base64.b64decode(found["bytes"][cross["stored"][0]["island"]]))
    assert cross["store"] == "vectors"
    q = torch.frombuffer(bytearray(data), dtype=torch.float32)[: trace["cross"].q[0].size]
    assert torch.allclose(q.reshape(trace["cross"].q[0].shape), torch.from_numpy(trace["cross"].q[0]), atol=1e-5)


def test_lens_contributions_and_occlusion_are_those_of_python(
    server: Server, translator: Translator, trace: Trace
) -> None:
    assert ask(server, "lens", ids(trace), None, {}) == json.loads(
        json.dumps(pellucid.logit_lens(translator, trace).to_json())
    )
    found = ask(server, "contributions", ids(trace), None, {"row": 1, "against": 5})
    expected = pellucid.attribute_logits(translator, trace, row=1, foil=5)
    assert found["total"] == pytest.approx(expected.total, abs=1e-4)
    assert [part["name"] for part in found["parts"]] == [part.name for part in expected.parts]
    target = [token.id for token in trace.sequences["out"]][:-1]
    occluded = ask(server, "occlusion", TEXT, target, {"row": None})
    values = pellucid.attribute(translator, trace).to_json()
    assert [word["change"] for word in occluded["words"]] == pytest.approx(
        [word["change"] for word in values["words"]], abs=1e-4
    )


def test_ids_and_tokens(server: Server, translator: Translator) -> None:
    encoded = ask(server, "encode", TEXT)
    assert encoded == translator.tokenizers.source.encode(TEXT)
    assert ask(server, "decode", encoded, "source", {}) == TEXT
    assert [one["id"] for one in ask(server, "label", encoded, "source", {})] == encoded
    about = ask(server, "about", {})
    assert (about["model"]["d_model"], about["served"]) == (translator.config.d_model, ["de", "en"])
    assert "weights" not in about or about["weights"] == ""


@pytest.mark.parametrize(
    ("method", "args", "message"),
    [
        ("train", [], "unknown method `train`; there are about, translate"),
        ("translate", [5, {}], "args begin with a text"),
        ("translate", ["a", 5], "the last of args must be an object"),
        ("translate", ["a", {"beamSize": 1000}], "beamSize (1000) must be a whole number from 1 to 32"),
        ("translate", ["a", {"off": ["cross.0.99"]}], "the model has no cross layer 0 head 99"),
        ("translate", ["a", {"off": ["x"]}], "the model has no head `x`"),
        ("translate", ["a", {"layersOff": ["encoder.77"]}], "the model has no layer `encoder.77`"),
        ("translate", ["a", {"hidden": [-1]}], "ids must be a list of at most 4,096 whole numbers"),
        ("translate", ["a", {"prefix": [99999]}], "the id 99999 does not exist"),
        ("translate", ["a", {"prefix": [[5], [2]]}], "a text cannot begin with the id 2"),
        ("score", ["a", [99999], {}], "the id 99999 does not exist"),
        ("score", ["a"], "score does not take these arguments"),
        ("lens", [{"src": [5], "tgt": [1]}, None, {}], "a pass has src, tgt and out"),
        ("lens", ["", None, {}], "the text is empty"),
        ("lens", ["a", None, {"off": ["cross.0.0"]}], "off has no effect here"),
        ("contributions", ["a", None, {"row": 4000}], "must be in 0.."),
        ("decode", [[5], "left", {}], "the side must be source or target"),
    ],
)
def test_a_request_that_is_refused(server: Server, method: str, args: list[Any], message: str) -> None:
    assert message in ask(server, method, *args, status=400)


def test_it_needs_the_key(guarded: Server) -> None:
    table = {"source": "de", "target": "en", "method": "encode", "args": ["a"]}
    assert guarded.ask("POST", "/api/model", table).status == 403
    with_key = {"Authorization": "Bearer schlüssel".encode().decode("latin-1")}
    assert guarded.ask("POST", "/api/model", table, headers=with_key).status in (200, 403)
    assert guarded.ask("POST", "/api/model", table, headers={"Authorization": "Bearer secret"}).status == 200
