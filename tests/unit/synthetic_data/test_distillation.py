"""A corpus of translations: what is in it, stopped and gone on with, and when it is another one than was asked for."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DataConfig
from pellucid.errors import ConfigError, DataError
from pellucid.streams import partial_output
from pellucid.synthetic_data import teacher_translation
from pellucid.synthetic_data.distillation import DistillRequest, distill_corpus, get_corpus_folder
from pellucid.synthetic_data.selection import TranslationFilter
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters, write_pairs

PAIRS = reversed_letters(40, seed=3)
ALL = TranslationFilter(drop_worst=0.0, length_ratio=1000.0, keep_copies=True)


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path, PAIRS)
    write_pairs(tmp_path, reversed_letters(5, seed=4), "valid")


def request_of(*teachers: Path, **given: Any) -> DistillRequest:
    texts = {"src": "train.src", "tgt": "train.tgt", "valid_src": "valid.src", "valid_tgt": "valid.tgt"}
    own: dict[str, Any] = {
        name: given.pop(name)
        for name in (*texts, "on_bad_utf8", "corpus_weights", "sampling_temperature")
        if name in given
    }
    whole: dict[str, Any] = {"teaching": SearchOptions(), "selection": ALL} | given
    return DistillRequest(teachers=tuple(map(str, teachers)), data=DataConfig(**texts | own), **whole)


def pairs_in(folder: Path, name: str = "train") -> list[tuple[str, str]]:
    sides = [(folder / f"{name}.{side}").read_text(encoding="utf-8").splitlines() for side in ("src", "tgt")]
    return list(zip(*sides, strict=True))


def expected(translator: Translator, n_best: int = 1, originals: bool = True) -> list[tuple[str, str]]:
    """The pairs as they are meant to be, by a call of `translate`."""
    found = translator.translate([source for source, _ in PAIRS], n_best=n_best)
    rows = []
    for (source, target), translation in zip(PAIRS, found, strict=True):
        texts = [target] if originals else []
        texts += [each.text for each in translation.alternatives if each.text.strip()]
        rows += [(source, text) for text in dict.fromkeys(texts)]
    return rows


@pytest.mark.parametrize("n_best", [1, 2])
@pytest.mark.parametrize("originals", [True, False])
def test_translations_stand_beside_the_originals(
    finished_run: Path, translator: Translator, n_best: int, originals: bool
) -> None:
    request = request_of(finished_run, teaching=SearchOptions(n_best=n_best), originals=originals)
    said: list[str] = []
    found = distill_corpus(Path("c"), request, device="cpu", log_line=said.append)
    wanted = expected(translator, n_best, originals)
    assert pairs_in(Path("c")) == wanted
    assert found.counts["originals"] == (40 if originals else 0)
    assert found.counts["translations"] == len(wanted) - found.counts["originals"]
    assert (
        found.counts["left_out_repeated"] + found.counts["left_out_empty"] == 40 * n_best - found.counts["translations"]
    )
    assert found.valid is None
    assert found.tokenizers is not None
    assert found.tokenizers.source.encode("a b") == translator.tokenizers.source.encode("a b")
    assert said[-1].startswith(f"corpus: {len(wanted):,} pairs in `c`")


def test_a_text_alone_is_translated(finished_run: Path, translator: Translator) -> None:
    distill_corpus(Path("c"), request_of(finished_run, tgt="", valid_src="", valid_tgt=""), device="cpu", log_line=str)
    assert pairs_in(Path("c")) == expected(translator, originals=False)


def test_what_is_cut_off_to_validate_on_is_not_translated(finished_run: Path) -> None:
    request = request_of(finished_run, valid_src="", valid_tgt="")
    found = distill_corpus(Path("c"), request, device="cpu", log_line=str)
    valid = pairs_in(Path("c"), "valid")
    assert found.valid == (Path("c/valid.src"), Path("c/valid.tgt"))
    assert valid
    assert set(valid) <= set(PAIRS)
    assert {source for source, _ in valid}.isdisjoint(source for source, _ in pairs_in(Path("c")))


def test_two_teachers_add_their_translations(finished_run: Path, translator: Translator) -> None:
    """The second one is the first with other weights."""
    other = Translator.load(finished_run, "cpu")
    other.model.output_projection.weight.data.neg_()
    other.save("other")
    distill_corpus(Path("c"), request_of(finished_run, Path("other"), originals=False), device="cpu", log_line=str)
    both = [t.translate([source for source, _ in PAIRS]) for t in (translator, Translator.load("other", "cpu"))]
    wanted = [
        (source, text)
        for (source, _), first, second in zip(PAIRS, *both, strict=True)
        for text in dict.fromkeys((first.text, second.text))
        if text.strip()
    ]
    assert pairs_in(Path("c")) == wanted
    assert len({path.name for path in Path("c").glob("teacher-*.jsonl")}) == 2


class Stop(BaseException):
    """What stops a command, as a signal does."""


@pytest.fixture
def _recorded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teacher_translation, "CHUNK_SIZE", 5)
    monkeypatch.setattr(partial_output, "SECONDS_BETWEEN_RECORDS", 0.0)


@pytest.mark.slow
@pytest.mark.usefixtures("_recorded_at_once")
def test_stopped_while_a_teacher_translates(
    finished_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = request_of(finished_run, teaching=SearchOptions(n_best=2))
    distill_corpus(Path("whole"), request, device="cpu", log_line=str)
    translate, lines = Translator.translate, list[str]()

    def stopping(self: Translator, sources: Sequence[str], **options: Any) -> Any:
        if len(lines) > 15:
            raise Stop
        lines.extend(sources)
        return translate(self, sources, **options)

    monkeypatch.setattr(Translator, "translate", stopping)
    with pytest.raises(Stop):
        distill_corpus(Path("c"), request, device="cpu", log_line=str)
    done = len(lines)
    assert 15 < done < 40
    assert not Path("c/distilled.json").exists()
    lines.clear()
    monkeypatch.setattr(Translator, "translate", lambda *a, **o: (lines.extend(a[1]), translate(*a, **o))[1])
    distill_corpus(Path("c"), request, device="cpu", log_line=str)
    assert lines == [source for source, _ in PAIRS][done:], "what was there is not translated again"
    assert f"resuming after line {done}" in capsys.readouterr().err
    contents = [{p.name: p.read_bytes() for p in Path(folder).iterdir()} for folder in ("whole", "c")]
    assert contents[0] == contents[1]


def test_what_is_there_is_used(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of(finished_run)
    first = distill_corpus(Path("c"), request, device="cpu", log_line=str)

    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(Translator, "translate", forbidden)
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "load", forbidden)
        again = distill_corpus(Path("c"), request, device="cpu", log_line=str)
    assert again.counts == first.counts
    # Other rules make another corpus of the same translations.
    strict = replace(request, selection=replace(ALL, drop_worst=0.5))
    half = distill_corpus(Path("c"), strict, fresh=True, device="cpu", log_line=str)
    assert half.counts["left_out_score"] > 10
    # A corpus that is not as it was is made again of them.
    Path("c/train.src").write_text("a b\n")
    assert distill_corpus(Path("c"), strict, device="cpu", log_line=str).counts == half.counts
    assert len(pairs_in(Path("c"))) > 40


def test_a_teacher_and_a_text_that_are_gone_are_what_they_were(finished_run: Path) -> None:
    shutil.copytree(finished_run, "teacher")
    request = request_of(Path("teacher"))
    counts = distill_corpus(Path("c"), request, device="cpu", log_line=str).counts
    shutil.rmtree("teacher")
    Path("train.src").unlink()
    assert distill_corpus(Path("c"), request, device="cpu", log_line=str).counts == counts


def test_another_request_is_refused(finished_run: Path) -> None:
    shutil.copytree(finished_run, "teacher")
    request = request_of(Path("teacher"))
    distill_corpus(Path("c"), request, device="cpu", log_line=str)

    def refusal(asked: DistillRequest) -> str:
        with pytest.raises(ConfigError) as refused:
            distill_corpus(Path("c"), asked, device="cpu", log_line=str)
        assert refused.value.hint.startswith("repeat the command that made it, choose another `corpus=`, or ")
        return str(refused.value).removeprefix("the corpus in `c` ")

    rules = replace(request, selection=replace(ALL, drop_worst=0.5))
    assert refusal(rules) == "was made with `drop_worst=0.0`, this command has `drop_worst=0.5`"
    two = replace(request, teaching=SearchOptions(n_best=2))
    assert refusal(two) == "was made with `n_best=1`, this command has `n_best=2`"
    assert refusal(request_of(finished_run)) == f"is of `teacher`, this command has `{finished_run}`"
    Path("train.tgt").write_text("x\n" * 40)
    assert refusal(request) == "was made of another text than this command's `tgt=`"
    write_pairs(Path(), PAIRS)
    other = Translator.load("teacher", "cpu")
    other.model.output_projection.weight.data.neg_()
    shutil.rmtree("teacher")
    other.save("teacher")
    assert refusal(request) == "was made when `teacher` had other weights"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "pellucid-distilled/1"}', '{"format": "other"}'])
def test_a_record_that_is_damaged_is_written_anew(finished_run: Path, text: str) -> None:
    whole = distill_corpus(Path("c"), request_of(finished_run), device="cpu", log_line=str)
    record = Path("c/distilled.json").read_bytes()
    Path("c/distilled.json").write_text(text)
    assert distill_corpus(Path("c"), request_of(finished_run), device="cpu", log_line=str).counts == whole.counts
    assert Path("c/distilled.json").read_bytes() == record


def test_what_is_lost_of_a_corpus_is_made_again(finished_run: Path) -> None:
    request = request_of(finished_run, valid_src="", valid_tgt="")
    whole = distill_corpus(Path("c"), request, device="cpu", log_line=str)
    assert whole.valid is not None
    for file in (whole.valid[0], whole.src):
        before = file.read_bytes()
        file.unlink()
        distill_corpus(Path("c"), request, device="cpu", log_line=str)
        assert file.read_bytes() == before
        file.write_text("changed\n")
        distill_corpus(Path("c"), request, device="cpu", log_line=str)
        assert file.read_bytes() == before


def test_an_earlier_record_has_the_digests_of_the_training_texts_alone(finished_run: Path) -> None:
    request = request_of(finished_run, valid_src="", valid_tgt="")
    distill_corpus(Path("c"), request, device="cpu", log_line=str)
    path = Path("c/distilled.json")
    record = json.loads(path.read_text())
    earlier = json.dumps(record | {"sha256": record["sha256"][:2]})
    path.write_text(earlier)
    distill_corpus(Path("c"), request, device="cpu", log_line=str)
    assert path.read_text() == earlier


def test_translations_that_are_damaged(finished_run: Path) -> None:
    distill_corpus(Path("c"), request_of(finished_run), device="cpu", log_line=str)
    (file,) = Path("c").glob("teacher-*.jsonl")
    whole = file.read_text(encoding="utf-8")
    Path("c/distilled.json").unlink()
    for text, error in (
        ("".join(whole.splitlines(keepends=True)[:7]), f"`{file}` and `c/source.src` differ in their numbers of lines"),
        (whole.replace("score", "sore", 1), f"line 1 of `{file}` holds no translations"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(DataError) as refused:
            distill_corpus(Path("c"), request_of(finished_run), device="cpu", log_line=str)
        assert (str(refused.value), refused.value.hint) == (error, "remove the file to translate it again")


def test_folders_of_others_and_nothing_left(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("c").mkdir()
    Path("c/thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="`c` is not empty and holds no translations"):
        distill_corpus(Path("c"), request_of(finished_run), device="cpu", log_line=str)
    assert [path.name for path in Path("c").iterdir()] == ["thesis.txt"]
    with pytest.raises(ConfigError, match=r"`train\.src` is a file, not a folder$"):
        distill_corpus(Path("train.src"), request_of(finished_run), device="cpu", log_line=str)
    sources = [source for source, _ in PAIRS]
    copying = Translator.load(finished_run, "cpu").translate([""])[0]
    monkeypatch.setattr(
        Translator,
        "translate",
        lambda _, lines: [replace(copying, alternatives=[replace(copying, text=t)]) for t in lines],
    )
    with pytest.raises(DataError) as refused:
        distill_corpus(Path("d"), request_of(finished_run, selection=TranslationFilter()), device="cpu", log_line=str)
    assert str(refused.value) == f"nothing is left of 40 translations: {len(sources)} copies of their source"
    assert not Path("d/distilled.json").exists()


def test_requests_that_make_no_sense(finished_run: Path) -> None:
    for given, error in (
        ({"src": ""}, "`src=` is not given"),
        (
            {"src": ("a", "b"), "tgt": ("a", "b"), "corpus_weights": (1.0, 2.0)},
            "`data.corpus_weights` ([1.0, 2.0]) has no effect",
        ),
        (
            {"src": ("a", "b"), "tgt": ("a", "b"), "sampling_temperature": 5.0},
            "`data.sampling_temperature` (5.0) has no effect",
        ),
    ):
        with pytest.raises(ConfigError) as refused:
            request_of(finished_run, **given)
        assert str(refused.value).startswith(error)
    with pytest.raises(ConfigError, match=r"^`sampling=` is not an option of a teacher$"):
        request_of(finished_run, teaching=SearchOptions(sample=True))
    with pytest.raises(ConfigError, match="no teacher is given"):
        request_of()
    with pytest.raises(ConfigError, match=f"the teacher `{finished_run}` is given twice"):
        request_of(finished_run, finished_run)


def test_sides_are_called_by_their_languages(finished_run: Path) -> None:
    for side, code in (("src", "de"), ("tgt", "en")):
        Path(f"train.{side}").rename(f"train.{code}")
    found = distill_corpus(
        Path("c"), request_of(finished_run, src="train.de", tgt="train.en"), device="cpu", log_line=str
    )
    assert (found.src, found.tgt) == (Path("c/train.de"), Path("c/train.en"))


def test_the_record_says_of_what_it_is(finished_run: Path) -> None:
    distill_corpus(Path("c"), request_of(finished_run), device="cpu", log_line=str)
    record = json.loads(Path("c/distilled.json").read_text(encoding="utf-8"))
    assert (record["format"], record["counts"]["lines"]) == ("pellucid-distilled/1", 40)
    assert record["request"]["teachers"].keys() == {str(finished_run)}


def test_the_folder_of_a_corpus(tmp_path: Path) -> None:
    assert get_corpus_folder(Path("a/b")) == Path("a/b.distilled")
    assert get_corpus_folder(Path()) == tmp_path.resolve().with_name(f"{tmp_path.name}.distilled")


def test_teachers_that_write_as_one(finished_run: Path, other_weights: Path, tmp_path: Path) -> None:
    request = request_of(finished_run, other_weights, ensemble=True)
    distill_corpus(Path("c"), request, device="cpu")
    assert pairs_in(Path("c")) == expected(Translator.load(finished_run, "cpu", ensemble=[other_weights]))
    turned = replace(request, teachers=request.teachers[::-1])
    names = [f"`{'`, `'.join(each.teachers)}`" for each in (request, turned)]
    with pytest.raises(ConfigError, match=f"is of {names[0]}, this command has {names[1]}$"):
        distill_corpus(Path("c"), turned, device="cpu")
    one_by_one = replace(request, ensemble=False)
    with pytest.raises(ConfigError, match="is of an ensemble, this command has teachers one after the other"):
        distill_corpus(Path("c"), one_by_one, device="cpu")
    with pytest.raises(ConfigError, match="requires at least two teachers, and one is given"):
        request_of(finished_run, ensemble=True)
