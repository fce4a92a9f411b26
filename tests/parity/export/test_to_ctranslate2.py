"""Models written for CTranslate2: its own engine agrees with ours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.batched_search import search
from pellucid.decoding.scoring import score_outputs
from pellucid.errors import ConfigError
from pellucid.model.transformer import Transformer
from pellucid.weights import to_ctranslate2
from tests.parity.export.shapes import DECODER, DECODERS, PAIRED, PAIRS, random_model

pytestmark = pytest.mark.foreign

BEYOND: dict[str, ModelConfig] = {
    "no final norm": ModelConfig(**PAIRED, norm="pre", final_norm=False),
    "gated_feed_forward": ModelConfig(
        **PAIRED, norm="pre", gated_feed_forward=True, norm_type="rms", bias=False, norm_eps=1e-3
    ),
    "no biases": ModelConfig(**PAIRED, bias=False, qkv_bias=True),
    "normed keys": ModelConfig(**PAIRED, norm="pre", embedding_norm=True, qk_norm=True, cross_query_norm=False),
    "normed keys, rms": ModelConfig(**PAIRED, norm_type="rms", bias=False, qk_norm=True, cross_query_norm=False),
}


def engine(kind: str, folder: Path) -> Any:
    import ctranslate2

    return getattr(ctranslate2, kind)(str(folder), device="cpu", compute_type="float32", intra_threads=1)


@pytest.mark.parametrize("name", [*PAIRS, *BEYOND])
def test_pairs_score_and_write_alike(name: str, tmp_path: Path) -> None:
    model = random_model((PAIRS | BEYOND)[name])
    assert isinstance(model, Transformer)
    theirs = engine("Translator", to_ctranslate2(model, None, tmp_path))
    sources, targets = torch.randint(4, 23, (3, 6)).tolist(), torch.randint(4, 31, (3, 5)).tolist()
    words = [[str(i) for i in ids] for ids in sources]
    found = theirs.score_batch(words, [[str(i) for i in ids] for ids in targets])
    ours = score_outputs(model, sources, targets)
    np.testing.assert_allclose([sum(each.log_probs) for each in found], ours, rtol=1e-5)
    silent = [[str(i)] for i in {model.config.pad_id, model.config.bos_id} - {model.config.eos_id}]
    written = theirs.translate_batch(words, beam_size=1, max_decoding_length=8, suppress_sequences=silent)
    greedy = search(model, sources, DecodeConfig(beam_size=1, max_length=8))
    assert [[int(word) for word in each.hypotheses[0]] for each in written] == [best[0].ids[:8] for best in greedy]


@pytest.mark.parametrize("name", ["GPT-2", "GPT-2, folded", "Qwen2", "grouped", "normed"])
@torch.inference_mode()
def test_decoders_give_the_same_logits(name: str, tmp_path: Path) -> None:
    grouped = ModelConfig.decoder(**DECODER | {"num_heads": 6}, positions="rotary", num_kv_heads=2)
    normed = ModelConfig.decoder(**DECODER, positions="learned", qk_norm=True)
    model = random_model((DECODERS | {"grouped": grouped, "normed": normed})[name])
    theirs = engine("Generator", to_ctranslate2(model, None, tmp_path))
    ids = torch.randint(3, 31, (2, 9))
    found = torch.from_numpy(np.array(theirs.forward_batch(ids.tolist())))
    torch.testing.assert_close(found, model(ids), rtol=0.0, atol=1e-5)


def test_int8_is_smaller_and_near(tmp_path: Path) -> None:
    model = random_model(ModelConfig(**PAIRED | {"d_model": 48, "d_ff": 96}))
    assert isinstance(model, Transformer)
    sizes, scores = [], []
    for kind in (None, "int8"):
        folder = to_ctranslate2(model, None, tmp_path / str(kind), kind)  # type: ignore[arg-type]
        sizes.append((folder / "model.bin").stat().st_size)
        import ctranslate2

        translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
        found = translator.score_batch([["5", "6", "7"]], [["8", "9", "10"]])[0]
        scores.append(sum(found.log_probs))
    assert sizes[1] < sizes[0] / 2
    assert scores[1] == pytest.approx(scores[0], rel=0.05)
    assert scores[1] != scores[0]


def test_an_unknown_quantization_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown quantization `int4`"):
        to_ctranslate2(random_model(PAIRS["post"]), None, tmp_path, "int4")  # type: ignore[arg-type]


def test_equal_weights_give_an_equal_file(tmp_path: Path) -> None:
    model = random_model(PAIRS["post"])
    first, second = (to_ctranslate2(model, None, tmp_path / name) for name in ("a", "b"))
    assert (first / "model.bin").read_bytes() == (second / "model.bin").read_bytes()
