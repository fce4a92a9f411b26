"""How time and memory grow with what a stranger brings: each input is doubled, and neither grows more than threefold.

python -m tests.fuzz.growth --doublings 5 --out growth.md

Time is the processor time of a process of its own, so that other programs on the machine do not count; memory is what
that process takes beyond what it had. A reader grows too fast where it does in each of several measurements.
"""

import argparse
import gzip
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors.numpy

from pellucid.config import DecodeConfig
from pellucid.config.tables import read_tables
from pellucid.documents.document import read_document
from pellucid.errors import PellucidError, escape_message, format_value
from pellucid.evaluation.calibration import Calibration
from pellucid.files.reading import parse_json, parse_settings, read_list
from pellucid.streams.source import LineSource
from pellucid.sweep.file import read_sweep
from pellucid.sweep.run_summaries import summarize_run
from pellucid.tasks.quality_flags import find_flags
from pellucid.tasks.reranking import read_reranking
from pellucid.text.glossary import Glossary
from pellucid.text.normalization import normalize
from pellucid.text.sentences import split_sentences
from pellucid.text.tokenizer_json_checks import find_unsafe_content
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.text.word_forms import WordForms
from pellucid.text.words import tokenize_words
from pellucid.tracing.trace import load_trace
from pellucid.views.plots.run import read_metrics
from pellucid.weights.folder import read_description, save_description
from tests.fuzz.corpora import READERS
from tests.fuzz.documents import DOCUMENTS
from tests.processes import fork
from tests.unit.decoding.models import random_model
from tests.unit.documents.stand_ins import uppercase

MOST = 3.0
"""Times that a doubling may take: a linear reader takes 2, a quadratic one 4."""
LEAST_SECONDS, LEAST_BYTES = 0.05, 24 * 2**20
"""What is less than this is not compared: start-up and the system's blocks are more than the growth."""
CURVES = 4
"""Times that all sizes of a reader are measured before it counts as one that grows too fast."""
SECONDS = 60
"""The processor time that one measurement may take."""
FORMS = WordForms(dict.fromkeys(("Abcdefg", "ein", "Mann", "läuft"), 9), begins_upper=True, is_complete=True)

Make = Callable[[int, Path], Callable[[], object]]
"""Makes an input of so many units in an empty folder, and returns what reads it."""


def _file(name: str, content: Callable[[int], str | bytes], read: Callable[[Path], object]) -> Make:
    def make(size: int, folder: Path) -> Callable[[], object]:
        data = content(size)
        (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        return lambda: read(folder / name)

    return make


def _text(content: Callable[[int], str], read: Callable[[str], object]) -> Make:
    def make(size: int, folder: Path) -> Callable[[], object]:
        text = content(size)
        return lambda: read(text)

    return make


def _keys(size: int) -> str:
    return ",".join(f'"token{number}":{number}' for number in range(size))


def _described(**more: Callable[[int], object]) -> Make:
    """The description of a model folder, with one value that grows."""

    def make(size: int, folder: Path) -> Callable[[], object]:
        letters = Vocabulary("characters", tuple("abcdefgh"))
        save_description(
            folder, random_model(1, letters.size).config, TokenizerPair(letters, letters), DecodeConfig(), "# x\n"
        )
        table = json.loads((folder / "pellucid.json").read_bytes())
        table |= {name: value(size) for name, value in more.items()}
        (folder / "pellucid.json").write_text(json.dumps(table), encoding="utf-8")
        return lambda: read_description(folder)

    return make


def _run(name: str, content: Callable[[int], str]) -> Make:
    def make(size: int, folder: Path) -> Callable[[], object]:
        (folder / "recipe.toml").write_text('name = "x"\n', encoding="utf-8")
        (folder / name).write_text(content(size), encoding="utf-8")
        return lambda: summarize_run(folder)

    return make


def _trace(size: int, folder: Path) -> Callable[[], object]:
    tensors = {f"t{number}": np.zeros(1, dtype=np.float32) for number in range(size)}
    data = safetensors.numpy.save(tensors, {"format": "pellucid-trace", "version": "2", "manifest": "{}"})
    (folder / "x.trace").write_bytes(data)
    return lambda: load_trace(folder / "x.trace")


def _lines(path: Path) -> None:
    source = LineSource(str(path), "error")
    while source.take(1000):
        pass
    source.close()


def _flagged(pair: str) -> object:
    source, _, target = pair.partition("\t")
    return find_flags(source, target, (9, 9), None, None)


def _document(make_whole: Callable[[int], tuple[str, bytes]]) -> Make:
    """A document that is read, translated by capitals, and compared."""

    def make(size: int, folder: Path) -> Callable[[], object]:
        name, data = make_whole(size)
        return lambda: read_document(data, Path(name)).translate(uppercase, "en")

    return make


SUBJECTS: dict[str, tuple[int, Make]] = {
    "tokenizer.json, a key twice": (20_000, _text(
        lambda n: f'{{"model":{{"type":"BPE","vocab":{{{_keys(n)},"token{n - 1}":1}},"merges":[]}}}}',
        lambda text: find_unsafe_content(text.encode()))),
    "tokenizer.json, many tokens": (20_000, _text(
        lambda n: f'{{"model":{{"type":"WordLevel","unk_token":"token0","vocab":{{{_keys(n)}}}}}}}',
        lambda text: find_unsafe_content(text.encode()))),
    "tokenizer.json, many added tokens": (10_000, _text(
        lambda n: json.dumps({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
                              "added_tokens": [{"content": f"<{i}>", "id": i} for i in range(n)]}),
        lambda text: find_unsafe_content(text.encode()))),
    "tokenizer.json, a long expression": (10_000, _text(
        lambda n: json.dumps({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a|" * n}},
                              "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}),
        lambda text: find_unsafe_content(text.encode()))),
    "JSON, many keys": (20_000, _text(lambda n: f"{{{_keys(n)}}}", lambda text: parse_settings(text.encode(), "x"))),
    "JSON, a deep list": (20_000, _text(lambda n: "[" * n, parse_json)),
    "JSON, long numbers": (1_000, _text(lambda n: f"[{'0.' + '123456789' * n}, 1e5]", parse_json)),
    "JSON, a long whole number": (100_000, _text(lambda n: "1" * n, parse_json)),
    "JSON, escapes": (50_000, _text(lambda n: '"' + "\\u00e9" * n + '"', parse_json)),
    "vocabulary.json": (20_000, _text(
        lambda n: json.dumps({"format": "pellucid-vocabulary/1", "level": "words",
                              "tokens": [f"w{i}" for i in range(n)]}),
        lambda text: Vocabulary.from_bytes(text.encode(), "x"))),
    "vocabulary of CTranslate2": (50_000, _file(
        "v.json", lambda n: json.dumps([f"w{i}" for i in range(n)]), lambda path: read_list(path, 2**26))),
    "pellucid.json, many languages": (20_000, _described(languages=lambda n: {f"l{i}": i for i in range(n)})),
    "pellucid.json, many labels": (20_000, _described(labels=lambda n: [f"l{i}" for i in range(n)])),
    "pellucid.json, unknown settings": (20_000, _described(decode=lambda n: {f"l{i}": i for i in range(n)})),
    "calibration.json": (20_000, _file(
        "calibration.json", lambda n: json.dumps({"format": "pellucid-calibration/1", "coefficients": [0.5] * n}),
        lambda path: Calibration.load(path.parent))),
    "rerank.json": (20_000, _file(
        "rerank.json", lambda n: json.dumps({"rerank": 1, "n_best": list(range(n)), "factors": {}}), read_reranking)),
    "a trace of many tensors": (2_000, _trace),
    "metrics.jsonl": (5_000, _file(
        "metrics.jsonl", lambda n: '{"event": "train", "step": 1, "loss": 0.5}\n' * n, read_metrics)),
    "runs: metrics.jsonl": (5_000, _run("metrics.jsonl", lambda n: '{"event":"validation","step":1,"loss":0.5}\n' * n)),
    "runs: result.json": (20_000, _run("result.json", lambda n: json.dumps({f"k{i}": i for i in range(n)}))),
    "recipe, many keys": (5_000, _file(
        "r.toml", lambda n: "".join(f"k{i} = {i}\n" for i in range(n)), read_tables)),
    "recipe, a long dotted key": (5_000, _file("r.toml", lambda n: "a." * n + "a = 1\n", read_tables)),
    "recipe, a long dotted key with spaces": (5_000, _file("r.toml", lambda n: "[" + "a . " * n + "a]\n", read_tables)),
    "recipe, a dotted key in a table": (5_000, _file("r.toml", lambda n: f"x = {{{'a.' * n}a = 1}}\n", read_tables)),
    "recipe, quoted dotted keys": (5_000, _file("r.toml", lambda n: '"a".' * n + "a = 1\n", read_tables)),
    "recipe, many tables": (5_000, _file("r.toml", lambda n: "".join(f"[a.b{i}]\n" for i in range(n)), read_tables)),
    "recipe, a deep list": (20_000, _file("r.toml", lambda n: "x = " + "[" * n, read_tables)),
    "recipe, a long string": (200_000, _file("r.toml", lambda n: f'x = """{"a" * n}"""\n', read_tables)),
    "recipe, a string of escapes": (50_000, _file("r.toml", lambda n: 'x = "' + "\\t" * n + '"\n', read_tables)),
    "sweep, a long grid": (40, _file(
        "s.toml", lambda n: f'out="o"\nsrc="a"\ntgt="b"\n[grid]\ntrain.steps = {list(range(1, n))}\n', read_sweep)),
    "sweep, many lists": (3, _file(
        "s.toml", lambda n: 'out="o"\nsrc="a"\ntgt="b"\n[grid]\n' + "".join(
            f"train.{key} = {list(range(1, n))}\n"
            for key in ("steps", "warmup_steps", "save_every", "validate_every", "log_every", "average", "patience")
        ), read_sweep)),
    "glossary, a long term": (64, lambda n, _: (
        lambda: Glossary([("a " * min(n, 250) + "z", "x")]).find_required("a " * 100 * n))),
    "glossary, many terms": (1_000, lambda n, _: (
        lambda: Glossary([(f"a{i} b", "x") for i in range(n)]).find_required("a1 b " * n))),
    "glossary, a letter with marks": (20_000, lambda n, _: (
        lambda: Glossary([("a", "x")]).find_required("字" + "\u0301" * n))),
    "flags, words in turn": (500, _text(lambda n: "ab cd " * n + "\t" + "ab ab cd cd " * (n // 2), _flagged)),
    "flags, one word": (500, _text(lambda n: "in " * n + "\t" + "in " * n, _flagged)),
    "flags, numbers": (2_000, _text(lambda n: "1,234" * n + "\t" + "2.345." * n, _flagged)),
    "flags, different numbers": (2_000, _text(lambda n: " ".join(map(str, range(n))) + "\tx", _flagged)),
    "flags, letters": (5_000, _text(lambda n: "a" * n + "\t" + "b" * n, _flagged)),
    "flags, a script without spaces": (2_000, _text(lambda n: "的" * n + "\t" + "不" * n, _flagged)),
    "words": (50_000, _text(lambda n: "a\u0301." * n, tokenize_words)),
    "words, points in digits": (50_000, _text(lambda n: "1." * n, tokenize_words)),
    "words, spaces": (200_000, _text(lambda n: " " * n, tokenize_words)),
    "words, joined emoji": (50_000, _text(lambda n: "\U0001f468\u200d" * n, tokenize_words)),
    "sentences, points": (10_000, _text(lambda n: ". " * n, lambda text: split_sentences(text))),
    "sentences, short ones": (10_000, _text(lambda n: "A b. " * n, lambda text: split_sentences(text))),
    "sentences, brackets": (10_000, _text(lambda n: "(" * n + ")" * n, lambda text: split_sentences(text))),
    "sentences, marks": (20_000, _text(lambda n: "a" + "\u0301\u0327" * n + ".", lambda text: split_sentences(text))),
    "sentences, spaces": (50_000, _text(lambda n: "a" + " " * n + "b", lambda text: split_sentences(text))),
    "normalization, marks": (20_000, _text(lambda n: "a" + "\u0301\u0327" * n, lambda text: normalize(text, "nfc"))),
    "normalization, letters": (50_000, _text(lambda n: "ﬁ" * n, lambda text: normalize(text, "nmt_nfkc"))),
    "word forms, letters": (5_000, _text(lambda n: "a" * n, FORMS.restore)),
    "word forms, unknown words": (500, _text(lambda n: "Abcdefgh " * n, FORMS.restore)),
    "word forms, capitals": (5_000, _text(lambda n: "EIN MANN. " * n, FORMS.restore)),
    "word forms, marks": (5_000, _text(lambda n: "(" * n + "." * n, FORMS.restore)),
    "messages": (100_000, _text(lambda n: "\x1b[31m" * n, lambda text: (escape_message(text), format_value(text)))),
    "lines": (20_000, _file("x", lambda n: "a b c d e f\n" * n, _lines)),
    "one line": (400_000, _file("x", lambda n: "a b " * n, _lines)),
    "lines, compressed": (50_000, _file("x.gz", lambda n: gzip.compress(b"a b c d e f\n" * n), _lines)),
}  # fmt: skip
"""The first size of each reader's input, and the reader."""


def _of_corpus(make: Callable[[Path, int], object], read: Callable[[Path], object]) -> Make:
    """A corpus that another process makes, whose memory is not the reader's."""

    def made(size: int, folder: Path) -> Callable[[], object]:
        def make_corpus() -> None:
            make(folder, size)

        maker = fork(make_corpus)
        assert os.waitpid(maker, 0)[1] == 0, "the corpus was not made"
        return lambda: read(folder)

    return made


SUBJECTS |= {f"document: {name}": (first, _document(make)) for name, (first, make) in DOCUMENTS.items()}
SUBJECTS |= {f"corpus: {name}": (first, _of_corpus(make, read)) for name, (first, make, read) in READERS.items()}


@dataclass(frozen=True)
class Growth:
    """The measurements of one reader, by size."""

    seconds: Sequence[float]
    megabytes: Sequence[float]

    @property
    def factors(self) -> tuple[float, float]:
        """The most that one doubling takes, in time and in memory; 0 where all is too little to be compared."""
        return (
            _largest(self.seconds, LEAST_SECONDS),
            _largest(self.megabytes, LEAST_BYTES / 1e6),
        )


def _largest(values: Sequence[float], least: float) -> float:
    """The largest factor of a doubling, as the mean of two in a row: caches and allocators make single ones uneven.

    What is less than `least` counts as `least`.
    """
    pairs = zip(values, values[2:], strict=False)
    return max(((after / max(before, least)) ** 0.5 for before, after in pairs if after > least), default=0.0)


def grown(subject: str, doublings: int, folder: Path) -> Growth:
    """Measures a reader at its first size and at each doubling; again where it grows too fast, up to `CURVES` times.

    A machine that becomes slower between two sizes spoils one curve; a quadratic reader grows too fast in each.
    """
    size, make = SUBJECTS[subject]
    for curve in range(CURVES):
        found: list[tuple[float, float]] = []
        for step in range(doublings + 1):
            place = folder / str(curve) / str(step)
            place.mkdir(parents=True)
            found.append(_measured(make, size << step, place))
            if found[-1][0] >= SECONDS:
                break
        growth = Growth([seconds for seconds, _ in found], [megabytes for _, megabytes in found])
        if max(growth.factors) <= MOST:
            break
    return growth


def _measured(make: Make, size: int, folder: Path) -> tuple[float, float]:
    """The processor time in seconds and the memory in megabytes that reading takes, in a process of its own."""
    source, end = os.pipe()

    def measure() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        read = make(size, folder)
        before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        with suppress(PellucidError, ValueError):
            read()
        seconds = time.process_time() - begun
        grown_by = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(end, json.dumps([seconds, grown_by * 1024 / 1e6]).encode())

    child = fork(measure)
    os.close(end)
    with os.fdopen(source, "rb") as told:
        answer = told.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) <= 0, "the reader failed"
    return tuple(json.loads(answer)) if answer else (float(SECONDS), 0.0)


def main() -> int:
    """Returns 1 where something grows too fast."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--doublings", type=int, default=5)
    parser.add_argument("--only", choices=list(SUBJECTS), action="append")
    parser.add_argument("--out", type=Path, help="a table in Markdown")
    given = parser.parse_args()
    rows = ["| what is read | units | CPU s | factor | MB | factor |", "| --- | --- | --- | --- | --- | --- |"]
    faulty = 0
    with tempfile.TemporaryDirectory() as name:
        for number, subject in enumerate(given.only or SUBJECTS):
            found = grown(subject, given.doublings, Path(name) / str(number))
            time_factor, memory_factor = found.factors
            faulty += max(time_factor, memory_factor) > MOST
            first = SUBJECTS[subject][0]
            rows.append(
                f"| {subject} | {first:,} to {first << len(found.seconds) - 1:,} | {found.seconds[0]:.3f} to "
                f"{found.seconds[-1]:.3f} | {time_factor:.1f} | {found.megabytes[0]:.0f} to {found.megabytes[-1]:.0f} "
                f"| {memory_factor:.1f} |"
            )
            print(rows[-1], flush=True)
    if given.out:
        given.out.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())
