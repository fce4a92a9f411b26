"""What is made for a request, in the folder `run`: the same request completes what a killed process has left."""

import sys
from collections.abc import Callable
from pathlib import Path

from pellucid.cli.main import main
from pellucid.config import DataConfig
from pellucid.data import chunks, journal, prepare, shards, streamed_inspection
from pellucid.data.cleaning import clean
from pellucid.data.dataset_cache import DatasetCache
from pellucid.engines.conversion_cache import get_cached_conversion
from pellucid.streams import partial_output
from pellucid.streams.streams import LineStream, open_input, open_output_stream
from pellucid.synthetic_data import teacher_translation
from pellucid.synthetic_data.augmentation import AugmentRequest, augment
from pellucid.synthetic_data.distillation import DistillRequest, distill_corpus
from pellucid.synthetic_data.ledger import TrainingLedger
from pellucid.synthetic_data.selection import TranslationFilter
from pellucid.tasks.search_options import SearchOptions
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from tests.toy_task import reversed_letters, write_pairs

PAIRS = reversed_letters(40, seed=3)
ALL = TranslationFilter(drop_worst=0.0, length_ratio=1000.0, keep_copies=True)
RUN = Path("run")
WITH_TIMES = {"stamps.json", "files.json", ".lock", "result.json", "metrics.jsonl", "state.json"}
"""Files that hold a time, or say who has made the others."""


def prepare_texts(folder: Path) -> None:
    """Writes the texts of all requests into a folder."""
    write_pairs(folder, PAIRS)
    (folder / "mono").write_text("".join(f"{source}\n" for source, _ in PAIRS[:12]), encoding="utf-8")
    for name in ("in", "model"):
        (folder / name).mkdir()
    for name in "ab":
        (folder / "in" / name).write_text("a b c\nd e\n" * 8, encoding="utf-8")
    (folder / "model" / "pellucid.json").write_text("{}", encoding="utf-8")
    (folder / "model" / "model.safetensors").write_bytes(b"weights")
    (folder / "model" / "cache").write_bytes(b"no folder")  # so the user's cache holds the conversion


def make(name: str, *model: str) -> int:
    """Makes what is called `name`, with a record at each step; returns 0."""
    journal.SECONDS = partial_output.SECONDS_BETWEEN_RECORDS = 0.0
    shards.CHUNK = streamed_inspection.CHUNK = 16
    streamed_inspection.BLOCK_OF_FILES = 64
    chunks.FEWEST, chunks.MOST, teacher_translation.CHUNK_SIZE = 3, 10, 16
    sys.modules["numba"] = None  # type: ignore[assignment]  # compiled code is not written for the request
    MAKERS[name](*model)
    return 0


def make_ids() -> None:
    """A corpus of ids: `data/shards`."""
    vocabulary = Vocabulary("spaces", tuple("abcdefgh"))
    shards.load_or_encode(RUN / "ids", PAIRS, TokenizerPair(vocabulary, vocabulary), 30, "text 1", keep_texts=True)


def make_prepared() -> None:
    """An inspection, tokenizers and ids: `data/prepared`."""
    data = DataConfig(src="train.src", tgt="train.tgt", tokenizer="words", valid_size=9, on_duplicate="skip")
    corpus = prepare.open_corpus(data, prepared=DatasetCache(RUN / "prepared"))
    prepare.prepare(corpus, prepare.train_tokenizers(corpus), RUN / "data", str, resuming=False)


def make_clean() -> None:
    """A cleaned corpus: `data/cleaning`. Files without a record are not replaced unasked, so it is asked for."""
    clean(DataConfig(src="train.src", tgt="train.tgt"), RUN, fresh=True)


def make_conversion() -> None:
    """A model's conversion: `engines/kept`."""

    def write(folder: Path) -> None:
        (folder / "model").mkdir()
        for name in ("model.bin", "vocabulary.json"):
            (folder / "model" / name).write_bytes(b"converted")

    get_cached_conversion(Path("model"), "numpy", "int8", write)


def make_output() -> None:
    """An output of lines: `streams/partial_output`."""
    RUN.mkdir(exist_ok=True)
    stream = LineStream("train.src", str(RUN / "out"))
    with (
        open_input(stream) as source,
        open_output_stream(stream, source, command=lambda: {"verb": "turn"}, nothing=("", "")) as out,
    ):
        for _, lines in out:
            out.write(line[::-1] for line in lines)


def make_distilled(model: str) -> None:
    """A corpus of a teacher's translations: `synthetic_data/distillation`."""
    data = DataConfig(src="train.src", tgt="train.tgt", valid_size=9)
    distill_corpus(
        RUN,
        DistillRequest(teachers=(model,), data=data, teaching=SearchOptions(), selection=ALL),
        device="cpu",
        log_line=str,
    )


def make_augmented(model: str) -> None:
    """Synthetic pairs: `synthetic_data/augmentation`."""
    request = AugmentRequest(models=(model,), input="mono", selection=ALL, drop_flagged=(), add_copies=True)
    augment(RUN, request, device="cpu", log_line=str)


def make_pieces() -> None:
    """The record of several trainings: `synthetic_data/ledger`."""
    RUN.mkdir(exist_ok=True)
    pieces = TrainingLedger.open(RUN, "rounds", {"overrides": []})
    for number in range(3):
        pieces.note(f"round-{number}", seconds=1.0)


def make_translated(model: str) -> None:
    """A folder of translated files: `streams/bulk`."""
    words = ["translate", model, "--device", "cpu", "--input-dir", "in", "--output-dir", "run", "--workers", "1"]
    assert main(words) == 0


MAKERS: dict[str, Callable[..., None]] = {
    "ids": make_ids, "prepared": make_prepared, "clean": make_clean, "conversion": make_conversion,
    "output": make_output, "pieces": make_pieces, "distilled": make_distilled, "augmented": make_augmented,
    "translated": make_translated,
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(make(*sys.argv[1:]))
