"""Runs each benchmark once, in small, to its end: a row a case, and figures that can be."""

import argparse
import gzip
import json
import random
import re
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from pellucid.text.word_forms import WordForms, save_word_forms
from tests.toy_task import write_pairs
from tests.unit.benchmarks.conftest import SCRIPTS, Ran

pytestmark = pytest.mark.slow

Run = Callable[..., Ran]
MAINS = sorted(path.stem for path in SCRIPTS.glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))


def is_spread(values: dict[str, float]) -> bool:
    """Median, least and greatest of times, speeds or ratios."""
    return [*values] == ["median", "min", "max"] and 0 < values["min"] <= values["median"] <= values["max"]


def test_each_script_is_run_by_a_test() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    run = set(re.findall(r'(?:run_script|script)\(\s*"(\w+)"', texts)) | {"kill_and_resume"}  # as a process of its own
    assert len(MAINS) > 20
    assert set(MAINS) <= run


class Parsed(Exception):
    """Carries the parser out of a script's main()."""


def parser_of(module: ModuleType) -> argparse.ArgumentParser:
    """The parser that main() makes."""

    def stop(self: argparse.ArgumentParser, *arguments: Any) -> None:
        raise Parsed(self)

    with patch.object(argparse.ArgumentParser, "parse_args", stop), pytest.raises(Parsed) as found:
        module.main([])
    parser: argparse.ArgumentParser = found.value.args[0]
    return parser


def test_attention_paths(run_script: Run) -> None:
    table, lines = run_script("attention_paths", "--quick", "--seconds", 0)
    kinds = {(row["L"] == 1, row["dropout"], row["backward"]) for row in table["cases"]}
    assert kinds == {(False, 0.0, True), (False, 0.1, True), (False, 0.0, False), (True, 0.0, False)}
    told = [row["mib"] for row in table["cases"] if "mib" in row]
    assert [mib.keys() for mib in told] == [{"explicit", "fused"}] * (sys.platform == "linux")
    assert len(lines) == 1 + len(table["cases"]) + len(told)
    for row in table["cases"]:
        assert is_spread(row["explicit_ms"])
        assert is_spread(row["fused_ms"])
        ratio = row["fused_ms"]["median"] / row["explicit_ms"]["median"]
        assert row["explicit_times_as_fast"] == pytest.approx(ratio, rel=1e-2, abs=1e-3)


def test_batch_invariance(run_script: Run, translator_folder: Path, lines_file: Callable[..., Path]) -> None:
    source = lines_file("source", "abc", "d", "efghij", "k l")
    table, lines = run_script("batch_invariance", translator_folder, "--input", source)
    assert len(table["found"]) == len(lines) == 8
    for row in table["found"].values():
        assert (row["lines"], row["texts that differ"]) == (4, 0)
        assert 0 <= row["largest difference of a score"] < 1e-4


def test_date_alignment(run_script: Run, translator_folder: Path) -> None:
    table, _ = run_script("date_alignment", translator_folder, "--dates", 6)
    assert table["dates"] == {"choosing": 3, "scoring": 3}
    assert [(row["method"], row["row"]) for row in table["by_field"]] == [
        (method, row) for method in ("argmax", "mutual", "threshold") for row in ("writes", "reads")
    ]
    for row in table["by_field"]:
        assert row["scored"] in row["all_heads_scored"]
        assert len(row["all_heads_scored"]) == 2 * 3 + 1  # of two layers two heads and their mean; the mean of all
    assert 0 <= table["by_field_found_without_gold"]["scored"]["f1"] <= 1
    assert [row["digits"] for row in table["by_character"]] == [3 * 8] * 2


def test_one_file(run_script: Run) -> None:
    table, _ = run_script("one_file", "--dates", 2)
    assert (table["dates"], table["different"]) == (2, [])


def test_loss(run_script: Run) -> None:
    small = ["--rounds", 1, "--widths", 4, 6, "--tokens", 10, "--vocabulary", 20]
    table, lines = run_script("loss", *small)
    assert (table["tokens"], table["vocabulary"], [*table["milliseconds"]]) == (10, 20, ["4", "6"])
    assert len(lines) == 8
    for sides in table["milliseconds"].values():
        assert [*sides] == ["products", "pellucid", "log_softmax", "plain"]
        assert all(is_spread(values) for values in sides.values())


def test_precision(run_script: Run, script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script("precision"), "bfloat16_gain", lambda device: 1.5)  # of large matrices
    small = ["--rounds", 1, "--widths", 8, "--sentences", 2, "--vocabulary", 30]
    table, lines = run_script("precision", *small)
    assert table["product_gain"] == 1.5
    assert [*table["tokens_per_second"]["8"]] == ["float32", "bfloat16", "autocast"]
    assert all(is_spread(values) for values in table["tokens_per_second"]["8"].values())
    assert len(lines) == 4


@pytest.mark.browser
def test_page_tokens(run_script: Run) -> None:
    table, lines = run_script("page_tokens", "--quick", "--kinds", "bytes,numbered bpe")
    assert [row["kind"] for row in table["kinds"]] == ["bytes", "numbered bpe"]
    assert len(lines) == 3
    for row in table["kinds"]:
        assert row["strings"] > 900
        assert row["unlike"] == dict.fromkeys(("numbers", "encode", "decode", "tokens", "labels"), 0)


@pytest.mark.browser
def test_page_sentences(run_script: Run, tmp_path: Path) -> None:
    (tmp_path / "multi30k").mkdir()
    text = "One dog runs. Two dogs run.\nA man rides a horse.\n"
    for part in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en", "fr", "cs"):
            (tmp_path / "multi30k" / f"{part}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    table, lines = run_script("page_sentences", "--data-dir", tmp_path)
    assert table["languages"][1] == {"language": "en", "lines": 6, "equal": 6}
    assert lines[1] == "en: 6 of 6 lines parted alike"


def test_sentence_borders(run_script: Run, script: Callable[[str], ModuleType], tmp_path: Path) -> None:
    page = '<html data-code="{0}" lang="{1}"><p>{2}</p></html>'
    for code, language, text in (
        ("eng", "en", "All are free. They are equal."),
        ("deu_1996", "de-1996", "Alle Menschen lachen. Die 2. Seite ist gleich."),
    ):
        (tmp_path / f"{code}.html").write_text(page.format(code, language, text), encoding="utf-8")
    table, _ = run_script("sentence_borders", "--udhr", tmp_path)
    assert [(row["language"], row["sentences"], row["beside_english"]) for row in table["languages"]] == [
        ("de", 2, 1.0),
        ("en", 2, 1.0),
    ]
    module = script("sentence_borders")
    paragraphs = module.read_udhr(tmp_path)["de"]
    assert module.sample(paragraphs, 9, True, random.Random(1)) == ["Alle Menschen lachen. Die 2. ~Seite ist gleich."]
    assert len(module.sample(paragraphs, 9, False, random.Random(1))) == 2


@pytest.mark.slow
def test_pictures(run_script: Run) -> None:
    table, _ = run_script("pictures", "--quick")
    assert all(is_spread(values) for values in table["seconds"].values())
    assert table["seconds"]["model_png"]["median"] > table["seconds"]["thumbnails"]["median"]


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
@pytest.mark.filterwarnings("ignore:.*longer than nearly all that the model was trained on")  # of 300 lines
def test_scripts(run_script: Run) -> None:
    small = ["--budget", "30s", "--steps", 2, "--pairs", 300, "--corpora", "korean decomposed"]
    table, lines = run_script("scripts", *small)
    assert [*table["measured"]] == ["korean decomposed"]
    assert [line.partition("[")[0].strip() for line in lines] == [*table["measured"]]
    for row in table["measured"].values():
        assert row["plan"]
        assert all(0 < part < 1 for part in row["characters"])
        assert row["chrf"].keys() == {"model", "copy", "constant"}
        assert set(row["other translations"].values()) == {0}


def test_sentences_a_line(run_script: Run, finished_run: Path) -> None:
    texts = ["--src", finished_run.parent / "train.src", "--ref", finished_run.parent / "train.tgt"]
    table, lines = run_script("sentences_a_line", finished_run, *texts, "--limit", 6, "--spellings")
    (row,) = table["runs"]
    assert (row["pairs"], row["steps"], row["seed"]) == (6, 6, 1)
    assert [(segment, [*scores]) for segment, scores in row["bleu"].items()] == [
        (segment, ["1", "2", "3", "5"]) for segment in ("off", "auto")
    ]
    assert len([line for line in lines if line.startswith("run, ")]) == 8
    assert row["other translations"]["as written"] == 0
    assert len(row["other translations"]) == 8


def test_typed_text(run_script: Run, finished_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    save_word_forms(WordForms.from_lines(["Ein Wort a b c"]), run)
    texts = ["--src", finished_run.parent / "train.src", "--ref", finished_run.parent / "train.tgt"]
    table, lines = run_script("typed_text", run, *texts, "--limit", 4)
    assert table["lines"] == 4
    assert [line.partition(":")[0] for line in lines] == [*table["bleu"]]
    assert all(row.keys() == {"equal", "off", "auto"} for row in table["bleu"].values())
    assert table["bleu"]["lower case"] == table["bleu"]["as written"]


def test_planted_spans(run_script: Run, finished_run: Path) -> None:
    texts = ["--src", finished_run.parent / "train.src", "--ref", finished_run.parent / "train.tgt"]
    table, lines = run_script("typed_text", finished_run, *texts, "--limit", 24, "--spans")
    rows = table["spans"]
    assert (table["lines"], len(rows)) == (24, 13)
    assert all(row["kept"] + row["flagged"] + row["silent"] == row["lines"] for row in rows.values())
    assert rows["all"]["silent"] == 0
    assert [line.partition(":")[0] for line in lines] == [*rows]


def test_translation_memory(run_script: Run, finished_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("rapidfuzz")
    sources = ["Zwei a b c d e f g h", "a b c", "Hund a b"]
    src, ref = write_pairs(tmp_path, [(line, line.replace("Zwei", "Two").replace("Hund", "dog")) for line in sources])
    given = ["--src", src, "--ref", ref, "--memory-src", src, "--memory-ref", ref]
    table, _ = run_script("translation_memory", finished_run, *given)
    assert table["exact"] == {"corrections": 3, "added": 3, "reused": 3}
    assert table["fuzzy"]["all"]["lines"] == 2
    assert table["natural"]["all"]["with"] == pytest.approx(100)


def test_document_speed(run_script: Run, finished_run: Path) -> None:
    lines = finished_run.parent / "train.src"
    table, _ = run_script("document_speed", finished_run, lines, "--units", 6, "--rounds", 1)
    assert table["units"] == 6
    assert [*table["relative speed"]] == ["lines", "page", "page with bold words"]
    assert table["relative speed"]["lines"] == 1


def test_terms(run_script: Run, finished_run: Path, tmp_path: Path) -> None:
    """In the text below `d` stands where nouns stand, and `e` does not."""
    folder = tmp_path / "multi30k"
    folder.mkdir()
    texts = {"train.en": ["the d is e ."] * 25, "val.de": ["a b c", "b", "c a"], "val.en": ["a d", "e", "b"]}
    for name, lines in texts.items():
        with gzip.open(folder / f"{name}.gz", "wt", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
    table, lines = run_script("terms", finished_run, "--data-dir", tmp_path, "--limit", 2)
    assert lines[-1] == "1 of 2 lines have a term"
    assert (table["nouns"], table["lines"], table["lines with terms"], table["terms"]) == (1, 2, 1, 1)
    assert table["terms used"] == {"free": 0, "held": 1}
    assert table["other texts without terms"] == 0
    (example,) = table["examples"]
    assert example["terms"] == ["d"]


SMALL_CLASSIFIER = (
    "--set", "model.d_model=8", "--set", "model.d_ff=8", "--set", "model.num_heads=2", "--set", "train.steps=2",
    "--set", "train.warmup_steps=1", "--set", "train.average=1", "--set", "train.validate_every=2",
)  # fmt: skip


def test_sst2(run_script: Run, data_dir: Path, tmp_path: Path) -> None:
    arguments = ["--data-dir", data_dir, "--out", tmp_path, "--seeds", 1, 2, *SMALL_CLASSIFIER]
    table, _ = run_script("sst2", *arguments)
    assert (table["seeds"], table["on"]) == ([1, 2], "dev")
    scratch = table["scratch"]
    assert len(scratch["runs"]) == 2
    assert scratch["mean"] == pytest.approx(sum(run["accuracy"] for run in scratch["runs"]) / 2, abs=0.01)
    assert table["bag_of_words"]["accuracy"] == 100  # one word of each sentence tells
    for run in (*scratch["runs"], table["bag_of_words"]):
        assert run["interval"][0] <= run["accuracy"] <= run["interval"][1]
        assert run["seconds"] >= 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_server_load(run_script: Run) -> None:
    table, lines = run_script("server_load", "--quick", "--engine", "torch", "--clients", 24, "--queue-tokens", 400)
    load, killed = table["load"], table["killed"]
    assert load["right"] > 0 < load["busy"]
    assert load["wrong"] == load["lost"] == load["other"] == 0
    assert load["accepted"] == load["answered"] == load["right"] + load["busy"]
    assert killed["wrong"] == killed["other"] == killed["glossaries"]["lost"] == 0
    assert sum(killed["documents"].values()) == killed["glossaries"]["found"] == 8
    assert load["holds"] is killed["holds"] is True
    assert [line.split(":")[0] for line in lines if not line.startswith("server: ")] == ["load", "killed", "speed"]
    assert [*table["speed"]["speed"]] == ["lists of 200", "lists of 25", "lists of 5", "lists of 1"]
    assert all(is_spread(each) for each in table["speed"]["speed"].values())


def test_threads(run_script: Run, translator_folder: Path) -> None:
    table, lines = run_script(
        "threads", "--seconds", 0.2, "--threads", 2, "--text", "abc", "--model", translator_folder
    )
    assert (table["threads"], table["texts"], table["messages"]) == (2, 1, [])
    assert len(table["jobs"]) == len(lines) == 7
    assert sum(counted["right"] for counted in table["jobs"].values()) > 0
    assert all(counted["wrong"] == counted["errors"] == 0 for counted in table["jobs"].values())


@pytest.mark.slow
def test_where_time_goes(run_script: Run, data_dir: Path, translator_folder: Path) -> None:
    arguments = ("--data-dir", data_dir, "--model", translator_folder, "--quick", "--rounds", 1)
    table, _ = run_script("where_time_goes", *arguments)
    found = [table["training"], *table["decoding"].values()]
    assert len(found) == 5
    for work in found:
        assert sum(kind["share"] for kind in work["kinds"].values()) == pytest.approx(1, abs=0.01)
        assert work["kinds"]["products of weights"]["milliseconds"] > 0


def test_products(run_script: Run, script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script("products"), "SHAPES", ((8, 12),))
    table, lines = run_script("products", "--rounds", 1)
    assert [case["rows"] for case in table["cases"]] == [5, 64, 320, 1787]
    assert len(lines) == 4
    assert all(is_spread(case[name]) for case in table["cases"] for name in ("forward", "input", "weight"))


@pytest.mark.slow
def test_growth(run_script: Run) -> None:
    table, lines = run_script("growth", "--only", "starting by corpus", "--quick")
    ((row,), (first, second)) = table["growth"], table["growth"][0]["points"]
    assert [first["size"], second["size"]] == [3000, 10_000]
    assert len(lines) == 2
    assert row["time"]["at_most"] == 1.0


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
def test_corpus_growth(run_script: Run) -> None:
    table, _ = run_script("corpus_growth", "--pairs", 1500, "--steps", 2, "--vocabulary", 300)
    (size,) = table["sizes"]
    assert (size["pairs"], size["kills"]) == (1500, 0)
    assert [*size["first"]["phases"]] == ["inspect", "tokenizer", "encode"]
    assert "inspect" not in size["start"]["phases"]  # it was stored
    assert size["texts"]["megabytes"] > 0


@pytest.mark.slow
def test_time_budget(run_script: Run, data_dir: Path, tmp_path: Path) -> None:
    table, _ = run_script("time_budget", "--data-dir", data_dir, "--budget", "30s", "--out", tmp_path)
    (run,) = table["runs"]
    assert (run["budget"], run["budget_seconds"], run["seed"]) == ("30s", 30, 1)
    assert run["wall_seconds"] > 0
    assert run["steps"] > 0
    assert 0 <= run["test"]["bleu"] <= 100


def test_tiny_shakespeare(run_script: Run, data_dir: Path, tmp_path: Path) -> None:
    table, _ = run_script("tiny_shakespeare", "--data-dir", data_dir, "--out", tmp_path / "run", "--steps", 1)
    assert table["steps"] == 1
    for side in ("ours", "plain"):
        assert 1 < table[side]["validation_loss"] < 5  # of 28 characters, so about 3.3 before anything is learnt
        assert table[side]["seconds"] >= 0


def test_tracing(run_script: Run, script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    table, lines = run_script("tracing", "--quick")
    assert len(table["cases"]) == len(lines) == 3
    for row in table["cases"]:
        assert row["pairs"] == 3
        assert all(is_spread(row[name]) for name in ("plain_s", "off"))
    assert all(is_spread(row["on"]) and row["tokens"] == 64 for row in table["cases"][:2])


def is_training_table(table: dict[str, Any]) -> bool:
    sides = ["pellucid", "torch", "torch-tuned"]
    assert [*table["tokens_per_second"]] == sides
    assert [*table["pellucid_times_as_fast_as"]] == sides[1:]
    assert 0 <= table["loss_difference"] < 1e-4
    (window,) = table["windows"]
    assert len({window[side]["tokens"] for side in sides}) == 1
    assert all(0 < window[side]["loss"] < 10 for side in sides)
    assert all(0 < window[side]["share_of_peak"] < 1 for side in sides)
    return all(
        is_spread(values) for values in (table["tokens_per_second"] | table["pellucid_times_as_fast_as"]).values()
    )


SMALL_TRAINING = ("--quick", "--windows", 1, "--batches", 1)


@pytest.mark.slow
def test_training_speed(run_script: Run, data_dir: Path) -> None:
    table, _ = run_script("training_speed", "--data-dir", data_dir, *SMALL_TRAINING)
    assert is_training_table(table)


def check_engines(table: dict[str, Any], sentences: int) -> None:
    """The rows of the decoding benchmark."""
    engines = ["pellucid", "pellucid-64", "transformers-64", "ctranslate2-64"]
    assert table["sentences"] == sentences
    assert table["logits_difference"] < 1e-4
    assert table["scores_difference"] < 1e-3
    assert table["greedy_outputs_equal_to_pellucid"]["pellucid"] == sentences
    assert is_spread(table["peak_gflops"])
    alone = ["pellucid", "transformers", "ctranslate2"]
    for name, expected in (("beam_1", engines), ("beam_5", engines), ("greedy_alone", alone)):
        rows = table[name]
        assert [*rows] == expected
        assert rows["pellucid"]["pellucid_times_as_fast"] == {"median": 1, "min": 1, "max": 1}
        for row in rows.values():
            assert is_spread(row["sentences_per_second"])
            assert is_spread(row["pellucid_times_as_fast"])
            assert 0 <= row["bleu"] <= 100


@pytest.mark.foreign
def test_engines(run_script: Run, translator_folder: Path, lines_file: Callable[..., Path]) -> None:
    given = [translator_folder, "--input", lines_file("in", "abc", "d", "ef"), "--rounds", 1, "--threads", 1]
    table, lines = run_script("engines", *given, "--quick")
    cases = [
        f"{dtype}, beam {beam}{alone}" for dtype in ("float32", "int8") for beam in (1, 5) for alone in ("", ", alone")
    ]
    assert [*table["translating"]] == cases
    for row in table["translating"].values():
        sides = ["pellucid", "directly", "own engine", "compiled", "compiled, ids to ids"]
        assert [*row["lines_per_second"]] == sides
        assert all(is_spread(values) for values in row["lines_per_second"].values())
        assert is_spread(row["share_of_ctranslate2"])
        assert is_spread(row["own_engine_share_of_ctranslate2"])
        assert is_spread(row["times_as_fast_as_the_own_engine"])
    assert [*table["from_the_shell"]] == ["ctranslate2, int8", "ctranslate2, float32", "torch", "compiled"]
    assert all(is_spread(row["cpu_seconds"]) for row in table["from_the_shell"].values())
    assert sum("asked: 0.95" in line for line in lines) == len(cases)
    assert not (translator_folder / "cache").exists(), "the given folder was written to"


@pytest.mark.foreign
def test_decoding_speed(
    run_script: Run, data_dir: Path, translator_folder: Path, lines_file: Callable[..., Path]
) -> None:
    texts = ["--input", lines_file("in", "abc", "d", "ef"), "--reference", lines_file("out", "cba", "d", "fe")]
    arguments = ["--data-dir", data_dir, "--quick", "--rounds", 1, "--model", translator_folder]
    check_engines(run_script("decoding_speed", *arguments, *texts)[0], 3)


@pytest.mark.foreign
@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_memory(
    run_script: Run, data_dir: Path, translator_folder: Path, script: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Of Pellucid in processes, which tell what they held; of the peers in this one, which shows that they work."""
    module, sent = script("memory"), list[dict[str, float]]()
    peers = {
        name: [side for side in getattr(module, name) if side != "pellucid"] for name in ("TRANSLATING", "TRAINING")
    }

    def beside_each_other(job: Any, sides: list[str]) -> dict[str, dict[str, float]]:
        for side in peers[type(job).__name__.upper()]:
            module.work(SimpleNamespace(send=sent.append), job, side)
        return own(job, sides)

    own = module.beside_each_other
    monkeypatch.setattr(module, "beside_each_other", beside_each_other)
    for name in peers:
        monkeypatch.setattr(module, name, ["pellucid"])
    where = ["--data-dir", data_dir, "--model", translator_folder]
    table, lines = run_script("memory", *where, "--quick", "--batches", 2, "--threads", 1)
    assert (table["sentences"], table["batches"], len(lines)) == (12, 2, 2)
    for row in (table["translating"]["pellucid"], table["training"]["pellucid"]):
        assert 50 < row["loaded"] < row["most"]
        assert row["for the work"] == pytest.approx(row["most"] - row["loaded"], abs=0.11)
        assert row["most, times Pellucid's"] == row["for the work, times Pellucid's"] == 1
    assert len(sent) == 6
    assert all(row["most"] >= row["loaded"] > 50 for row in sent)


@pytest.mark.foreign
def test_exports(run_script: Run, translator_folder: Path, lines_file: Callable[..., Path], tmp_path: Path) -> None:
    texts = ["--src", lines_file("src", "abc", "d", "efg hij"), "--ref", lines_file("ref", "cba", "d", "gfe")]
    table, _ = run_script("exports", translator_folder, *texts, "--limit", 2, "--folder", tmp_path / "models")
    assert table["passed"] is True
    assert table["sentences"] == 2
    for kind in ("ct2", "onnx"):
        assert (table[kind]["different"], table[kind]["which"]) == (0, [])
        assert all(size > 0 for size in table[kind]["megabytes"].values())
    assert table["ct2 int8"].keys() == {"megabytes", "greedy", "beam"}
    assert table["onnx int8"].keys() == {"megabytes", "greedy"}
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["ct2", "ct2-int8", "onnx", "onnx-int8"]


@pytest.fixture
def small_bert(tmp_path: Path) -> Path:
    """A BERT with random weights and a vocabulary of letters, as transformers saves it."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    folder = tmp_path / "bert"
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=128, **sizes)).save_pretrained(folder)
    BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.mark.foreign
def test_sst2_from_a_checkpoint(run_script: Run, data_dir: Path, tmp_path: Path, small_bert: Path) -> None:
    settings = ["--set", "train.average=1", "--set", "train.validate_every=2"]
    arguments = ["--data-dir", data_dir, "--out", tmp_path / "runs", "--seeds", 1, "--on", "test", *settings]
    arguments += ["--set", "train.steps=2", "--set", "train.warmup_steps=1"]
    table, _ = run_script("sst2", *arguments, "--checkpoint", small_bert)
    assert table["on"] == "test"
    assert "transformers" in table["versions"]
    for side in ("scratch", "fine_tuned", "transformers"):
        assert table[side]["deviation"] is None
        assert 0 <= table[side]["mean"] <= 100


@pytest.mark.browser
def test_page_typing(run_script: Run) -> None:
    with ThreadPoolExecutor(1) as beside:  # Playwright takes one browser a thread, and this one's tests may have theirs
        table, lines = beside.submit(lambda: run_script("page_typing", "--quick")).result()
    assert len(lines) == 1
    (case,) = table["cases"]
    assert case["sentences"] == 2
    for beam in ("beam 1", "beam 5"):
        assert [*case[beam]] == ["first_word_ms", "word_ms", "sentence_ms"]
        assert case[beam]["first_word_ms"]["min"] > 0
        assert case[beam]["sentence_ms"]["min"] >= case[beam]["first_word_ms"]["min"]
    assert case["long_tasks_while_typing"]["keys"] > 20


@pytest.mark.browser
def test_page_translations(run_script: Run, translator_folder: Path, tmp_path: Path) -> None:
    src, ref = tmp_path / "a.txt", tmp_path / "b.txt"
    src.write_text("3. Mai 2021\n5 May 2022\n", encoding="utf-8")
    ref.write_text("2021-05-03\n2022-05-05\n", encoding="utf-8")
    table, lines = run_script("page_translations", translator_folder, "--src", src, "--ref", ref)
    assert table["lines"] == 2
    assert [(row["weights"], row["beam_size"]) for row in table["rows"]] == [
        (weights, beam) for weights in ("float32", "float16", "int8") for beam in (1, 5)
    ]
    assert len(lines) == 6
    assert all(row["equal"] == 2 for row in table["rows"] if row["weights"] == "float32")


@pytest.mark.browser
def test_page_speed(run_script: Run, translator_folder: Path) -> None:
    table, lines = run_script("page_speed", "--quick", "--model", translator_folder, "--weights", "int8")
    assert [row["beam"] for row in table["cases"]] == [1, 5]
    assert len(lines) == 2
    for row in table["cases"]:
        assert row["weights"] == "int8"
        assert 0 <= row["largest difference of a logit"] < 1e-4
        assert is_spread(row["read_ms"])
        for side in ("word_ms", "python_word_ms"):
            p95 = row[side].pop("p95")
            assert is_spread(row[side])
            assert row[side]["min"] <= p95 * 1.01


@pytest.mark.browser
def test_viewer(run_script: Run) -> None:
    sizes = ["--layers", 2, "--heads", 2, "--width", 4, "--lengths", "6,9", "--repeats", 2]
    with ThreadPoolExecutor(1) as beside:  # Playwright takes one browser a thread, and this one's tests may have theirs
        table, lines = beside.submit(lambda: run_script("viewer", *sizes)).result()
    assert [page["length"] for page in table["pages"]] == [6] * 3 + [9] * 3
    assert len(lines) == 6
    for page in table["pages"]:
        assert page["megabytes"] > 0
    for page in table["pages"][2::3]:
        assert [*page["in_the_browser"]] == ["heads", "matrix", "model", "neuron"]
        for view, found in page["in_the_browser"].items():
            measured = table["limits"].keys() - (
                {"layer_switch_p95_ms", "head_switch_p95_ms"} if view == "model" else set()
            )
            assert measured <= found.keys()
            assert all(value >= 0 for value in found.values())


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
def test_two_trees(run_script: Run, data_dir: Path, translator_folder: Path) -> None:
    small = ["--rounds", 1, "--steps", 2, "--searches", 1, "--set", "model.d_model=16", "--set", "model.num_heads=2"]
    small += ["--set", "data.vocab_size=300", "--set", "data.max_length=50"]
    table, lines = run_script(
        "two_trees", "--before", SCRIPTS.parent, "--data-dir", data_dir, "--model", translator_folder, *small
    )
    assert is_spread(table["training"]["times as fast"])
    assert [*table["training"]["tokens a second"]] == ["before", "now"]
    assert len(table["translating"]) == 4
    for row in table["translating"].values():
        assert is_spread(row["times as fast"])
        assert row["equal translations"] <= row["sentences"]
    assert len(lines) == 5


@pytest.mark.slow
def test_gpu_on_a_cpu(run_script: Run, tmp_path: Path, queued: Callable[[str], None]) -> None:
    """As on a GPU, but for what only a GPU can tell: its waits and its memory."""
    queued("cpu")
    parts = "peak", "equality", "waits", "stopped", "shapes", "training"
    arguments = ["--device", "cpu", "--tiny", "--out", tmp_path / "gpu.json", "--only", *parts]
    table, lines = run_script("gpu", *arguments)
    assert json.loads((tmp_path / "gpu.json").read_text()) == table
    found = table["parts"]
    assert [*found] == [line.partition(",")[0] for line in lines if line.endswith("seconds left")] == [*parts]
    assert found["stopped"]["result"].pop("told").startswith("the loss is not finite at step 2 ")
    assert found["stopped"]["result"] == {"weights_unchanged": True, "runs_ahead": True}
    rows = found["equality"]["result"]
    assert [row["what"] for row in rows] == 2 * ["logits", "beam 1", "beam 5"] + ["a step"]
    assert all(row["holds"] if "holds" in row else row["equal_ids"] == row["sentences"] for row in rows)
    assert [row["waits"] for row in found["waits"]["result"]] == 4 * [None]
    assert [(row["type"], row["steps"]) for row in found["shapes"]["result"]] == [("float32", 3), ("bfloat16", 3)]
    assert all(row["shapes"] <= row["steps"] and row["seconds"] * row["again"] > 0 for row in found["shapes"]["result"])
    sides = [(row["type"], row["side"]) for row in found["training"]["result"]]
    assert sides == [
        (kind, side) for kind in ("float32", "tf32", "bfloat16") for side in ("pellucid", "nn.Transformer")
    ]
    assert all(row["tokens_per_second"] > 0 and row["share_of_peak"] > 0 for row in found["training"]["result"])


def test_gpu_loses_nothing_where_a_part_fails(
    run_script: Run, script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(bench: object) -> Any:
        yield {"row": 1}
        raise RuntimeError("no such kernel")

    monkeypatch.setitem(script("gpu").PARTS, "equality", fails)
    table, lines = run_script("gpu", "--device", "cpu", "--tiny", "--only", "equality", "peak", status=1)
    assert table["parts"]["equality"]["result"] == [{"row": 1}]
    assert table["parts"]["equality"]["error"] == "RuntimeError: no such kernel"
    assert table["parts"]["peak"]["result"]["float32"]["tflops"] > 0
    assert "  failed: RuntimeError: no such kernel" in lines


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
def test_workers(run_script: Run, data_dir: Path, translator_folder: Path) -> None:
    source = data_dir / "multi30k" / "test_2016_flickr.de.gz"
    table, lines = run_script("workers", "--model", translator_folder, "--input", source, "--cores", 2, "--quick")
    assert table["equal"] is True
    for beam in ("beam 5", "beam 1"):
        assert is_spread(table[beam]["workers times as fast"])
        assert [*table[beam]["seconds"]] == ["1 x 2", "2 x 1"]
    assert len(lines) == 3


def test_doctor_on_clean_corpora(run_script: Run, tmp_path: Path) -> None:
    pairs = [("A dog runs in the park.", "Ein Hund läuft im Park."), ("Two men sit.", "Zwei Männer sitzen.")]
    for number, language in enumerate(("en", "de")):
        with gzip.open(tmp_path / f"train.{language}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{pair[number]}\n" for pair in pairs)
    table, _ = run_script("doctor_on_clean_corpora", tmp_path)
    assert [(row["language"], row["pairs"], row["bad"]) for row in table["rows"]] == [("de", 2, [])]
