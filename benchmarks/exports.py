"""Does an exported translator write what ours does?

    python benchmarks/exports.py RUN --src test.en.gz --ref test.de.gz

Greedy search over every sentence, in single precision: CTranslate2 and ONNX must write the same tokens for all but one
sentence in a thousand. Then both with int8 matrices: their BLEU must be within 0.3 of ours, greedy, and CTranslate2's
with a beam, too. JSON goes to standard output; the exit status is 1 where a bar is missed. `--folder` keeps the
exported models.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from report import circumstances, positive, print_json, refusals_in_words

from pellucid.conversion.counterparts import CTranslate2, Onnx
from pellucid.data.lines import read_lines
from pellucid.decoding.batched_search import search
from pellucid.decoding.ids import list_suppressed_ids
from pellucid.evaluation.scores import score_corpus
from pellucid.model.transformer import Transformer
from pellucid.weights import to_ctranslate2, to_onnx
from pellucid.weights.folder import SavedModel
from pellucid.weights.opening import open_folder

BLEU_BAR = 0.3
DIFFERENT_BAR = 1 / 1000


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run or model folder of a translator")
    parser.add_argument("--src", required=True)
    parser.add_argument("--ref", required=True)
    parser.add_argument("--limit", type=positive, help="only the first sentences")
    parser.add_argument("--skip", choices=("ct2", "onnx"), action="append", default=[])
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        table = measure(arguments, arguments.folder or Path(name))
    print_json(circumstances(__file__, argv, ("ctranslate2", "onnxruntime")) | table)
    return 0 if table["passed"] else 1


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All comparisons, as a table."""
    saved = open_folder(arguments.run, torch.device("cpu"), torch.float32)
    assert saved.tokenizers is not None
    assert isinstance(saved.model, Transformer)
    lines = list(read_lines(arguments.src))[: arguments.limit]
    references = list(read_lines(arguments.ref))[: arguments.limit]
    sources = saved.tokenizers.source.encode_lines(lines)
    ours = {
        name: [found[0].ids for found in search(saved.model, sources, replace(saved.decode, beam_size=width, n_best=1))]
        for name, width in (("greedy", 1), ("beam", saved.decode.beam_size))
    }
    table: dict[str, Any] = {
        "model": asdict(saved.model.config), "sentences": len(sources),
        "ours": {name: _bleu(saved, outputs, references) for name, outputs in ours.items()},
    }  # fmt: skip
    passed = True
    for kind in ("ct2", "onnx"):
        if kind in arguments.skip:
            continue
        table[kind] = found = _float32(saved, kind, folder, sources, ours["greedy"])
        passed &= found["different"] <= DIFFERENT_BAR * len(sources)
    if "ct2" not in arguments.skip:
        table["ct2 int8"] = found = _int8(saved, folder, sources, references)
        passed &= all(abs(found[name] - table["ours"][name]) <= BLEU_BAR for name in ours)
    if "onnx" not in arguments.skip:
        table["onnx int8"] = found = _onnx_int8(saved, folder, sources, references)
        passed &= abs(found["greedy"] - table["ours"]["greedy"]) <= BLEU_BAR
    return table | {"passed": passed}


def _float32(
    saved: SavedModel, kind: str, folder: Path, sources: list[list[int]], ours: list[list[int]]
) -> dict[str, Any]:
    """How many greedy outputs differ, and where the first few do."""
    place = folder / kind
    started = time.perf_counter()
    engine: CTranslate2 | Onnx
    if kind == "ct2":
        to_ctranslate2(saved.model, saved.tokenizers, place, decode=saved.decode)
        engine = CTranslate2(place, saved.model.config)
    else:
        to_onnx(saved.model, place, saved.tokenizers, decode=saved.decode)
        engine = Onnx(place, saved.model.config)
    exported = time.perf_counter()
    theirs = [_greedy(saved, engine, ids) for ids in sources]
    different = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    written = sorted(path for path in place.rglob("*") if path.suffix in (".bin", ".onnx"))
    return {
        "different": len(different), "which": different[:10], "export_seconds": round(exported - started, 1),
        "search_seconds": round(time.perf_counter() - exported, 1),
        "megabytes": {path.name: round(path.stat().st_size / 1e6, 2) for path in written},
    }  # fmt: skip


def _greedy(saved: SavedModel, engine: CTranslate2 | Onnx, ids: list[int]) -> list[int]:
    config, decode = saved.model.config, saved.decode
    limit = min(decode.max_length or 2 * len(ids) + 50, config.max_positions - 1 - len(decode.target_prefix))
    start = [config.bos_id, *decode.target_prefix]
    return engine.greedy(_source(saved, ids), start, list_suppressed_ids(config, decode.suppress_tokens), limit)


def _int8(saved: SavedModel, folder: Path, sources: list[list[int]], references: list[str]) -> dict[str, Any]:
    """BLEU with matrices of int8, by CTranslate2's own searches."""
    place = to_ctranslate2(saved.model, saved.tokenizers, folder / "ct2-int8", "int8", decode=saved.decode)
    engine = CTranslate2(place, saved.model.config)
    table: dict[str, Any] = {"megabytes": round((place / "model.bin").stat().st_size / 1e6, 2)}
    for name, width in (("greedy", 1), ("beam", saved.decode.beam_size)):
        found = engine.engine.translate_batch(
            [engine.words(_source(saved, ids)) for ids in sources], beam_size=width, max_batch_size=32,
            length_penalty=saved.decode.length_penalty,
            max_decoding_length=min(256, saved.model.config.max_positions - 1),
        )  # fmt: skip
        outputs = [[engine.ids[word] for word in each.hypotheses[0]] for each in found]
        table[name] = _bleu(saved, outputs, references)
    return table


def _onnx_int8(saved: SavedModel, folder: Path, sources: list[list[int]], references: list[str]) -> dict[str, Any]:
    """Returns the greedy BLEU of the graphs with matrices of int8, and their sizes."""
    place = to_onnx(saved.model, folder / "onnx-int8", saved.tokenizers, decode=saved.decode, quantization="int8")
    for whole in (place / "onnx").glob("*.onnx"):
        if not whole.stem.endswith("_quantized"):
            whole.unlink()
    engine = Onnx(place, saved.model.config)
    written = sorted((place / "onnx").glob("*.onnx"))
    return {
        "megabytes": {path.name: round(path.stat().st_size / 1e6, 2) for path in written},
        "greedy": _bleu(saved, [_greedy(saved, engine, ids) for ids in sources], references),
    }


def _source(saved: SavedModel, ids: list[int]) -> list[int]:
    """A source as the model reads it."""
    return saved.decode.add_special_ids(ids, saved.model.config.eos_id)


def _bleu(saved: SavedModel, outputs: list[list[int]], references: list[str]) -> float:
    assert saved.tokenizers is not None
    return round(score_corpus([saved.tokenizers.target.decode(ids) for ids in outputs], references).bleu, 2)


if __name__ == "__main__":
    sys.exit(main())
