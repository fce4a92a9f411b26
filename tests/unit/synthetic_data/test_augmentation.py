"""Synthetic pairs: what is in them, stopped and gone on with, and when they are others than were asked for."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.config import DecodeConfig
from pellucid.errors import ConfigError, DataError, PellucidError
from pellucid.streams import partial_output
from pellucid.synthetic_data import teacher_translation
from pellucid.synthetic_data.augmentation import AugmentRequest, augment
from pellucid.synthetic_data.noise import Noise
from pellucid.synthetic_data.selection import TranslationFilter
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.translation import Translation
from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters

LINES = [*dict.fromkeys(source for source, _ in reversed_letters(30, seed=3))][:12]
ALL = TranslationFilter(drop_worst=0.0, length_ratio=1000.0, keep_copies=True)
TWO_DRAWS: dict[str, Any] = {"teaching": SearchOptions(sample=True, seed=7), "num_samples": 2}


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(LINES)


def write(lines: Sequence[str], name: str = "mono") -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def request_of(*models: Path, **given: Any) -> AugmentRequest:
    whole: dict[str, Any] = {"input": "mono", "selection": ALL, "drop_flagged": ()} | given
    return AugmentRequest(models=tuple(map(str, models)), **whole)


def make(folder: str, request: AugmentRequest, **given: Any) -> list[tuple[str, str]]:
    """Makes the pairs and returns them."""
    augment(Path(folder), request, device="cpu", **{"log_line": str} | given)
    sides = [(Path(folder) / name).read_text(encoding="utf-8").splitlines() for name in ("train.src", "train.tgt")]
    return list(zip(*sides, strict=True))


def expected(columns: Sequence[Sequence[Translation]], tag: str = "<bt> ") -> list[tuple[str, str]]:
    """The pairs as they are meant to be, by calls of the translator."""
    rows = [
        (line, dict.fromkeys(each.text for each in of_line)) for line, *of_line in zip(LINES, *columns, strict=True)
    ]
    return [(f"{tag}{text}", line) for line, texts in rows for text in texts if text]


def test_the_lines_become_targets(finished_run: Path, translator: Translator) -> None:
    assert make("c", request_of(finished_run)) == expected([translator.translate(LINES)])
    assert make("d", request_of(finished_run, tag="")) == expected([translator.translate(LINES)], "")
    counts = json.loads(Path("c/augmented.json").read_text())["counts"]
    assert (counts["lines"], counts["pairs"] + counts["left_out_empty"]) == (12, 12)


def test_the_lines_become_sources(finished_run: Path, translator: Translator) -> None:
    found = make("c", request_of(finished_run, direction="forward"))
    assert found == [(line, text) for text, line in expected([translator.translate(LINES)], "")]


def test_the_n_best(finished_run: Path, translator: Translator) -> None:
    found = make("c", request_of(finished_run, teaching=SearchOptions(n_best=2)))
    both = [each.alternatives for each in translator.translate(LINES, n_best=2)]
    assert found == expected(list(zip(*both, strict=True)))


@pytest.mark.slow
def test_draws_are_those_of_the_seed_and_the_line(finished_run: Path, translator: Translator) -> None:
    """Neither the batch nor what is left out changes them."""
    whole = make("c", request_of(finished_run, **TWO_DRAWS))
    assert whole == expected([translator.sample(LINES, seed=seed) for seed in (7, 8)])
    assert len(whole) > len(LINES)
    small = request_of(finished_run, teaching=SearchOptions(sample=True, seed=7, batch_tokens=8), num_samples=2)
    assert make("d", small) == whole
    line = whole[0][1]
    without = make("e", request_of(finished_run, **TWO_DRAWS), held_out={line})
    assert without == [pair for pair in whole if pair[1] != line]
    assert without != whole


def test_noise_follows_from_the_seed_and_the_line(finished_run: Path) -> None:
    plain = make("c", request_of(finished_run, tag=""))
    noise = Noise(drop_words=0.3, blank_words=0.3, swap_words=2)
    noisy = make("d", request_of(finished_run, noise=noise, seed=5))
    numbers = [LINES.index(line) for _, line in plain]
    wanted = [
        (f"<bt> {noise.apply(text, np.random.default_rng([5, number, 0]))}", line)
        for number, (text, line) in zip(numbers, plain, strict=True)
    ]
    assert noisy == wanted
    assert {line for _, line in noisy} == {line for _, line in plain}
    assert any("<blank>" in source for source, _ in noisy)


def test_lines_that_become_sources_have_noise_only_where_they_are_learnt(finished_run: Path) -> None:
    plain = make("c", request_of(finished_run, direction="forward"))
    noise = Noise(drop_words=0.3, blank_words=0.3, swap_words=2)
    noisy = make("d", request_of(finished_run, direction="forward", noise=noise, seed=5))
    assert noisy == [
        (noise.apply(line, np.random.default_rng([5, LINES.index(line), 0])), text) for line, text in plain
    ]
    assert noisy != plain
    assert Path("d/mono.txt").read_bytes() == Path("c/mono.txt").read_bytes()


def test_what_is_odd_is_left_out(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = Translator.load(finished_run, "cpu").translate(["a b c"])[0]
    texts = ["c b a", "a a a a a a a a a", "", "x y z 1 2", "ab cd ef gh"]
    lines = ["a b c", "d e f", "g h a", "b c d", "ab cd ef gh"]
    write(lines)

    def translate(_: Translator, given: Sequence[str]) -> list[Translation]:
        found = [replace(good, text=texts[lines.index(line)]) for line in given]
        return [replace(each, alternatives=[each]) for each in found]

    monkeypatch.setattr(Translator, "translate", translate)
    said: list[str] = []
    rules = replace(ALL, keep_copies=False)
    pairs = make("c", request_of(finished_run, drop_flagged=("loop", "copy"), selection=rules), log_line=said.append)
    assert [line for _, line in pairs] == ["a b c", "b c d"]
    assert said[-2].endswith("left out: 1 empty, 1 copies of their source, 1 flagged (loop 1)")
    kept = make("d", request_of(finished_run, drop_flagged=("copy",)))
    assert [line for _, line in kept] == ["a b c", "d e f", "b c d", "ab cd ef gh"], "copies are kept where asked for"


def test_copied_lines(finished_run: Path) -> None:
    write(["", *LINES[:3]])
    make("c", request_of(finished_run, add_copies=True))
    assert Path("c/copied.txt").read_text().splitlines() == LINES[:3]
    Path("c/copied.txt").unlink()
    make("c", request_of(finished_run, add_copies=True))
    assert Path("c/copied.txt").read_text().splitlines() == LINES[:3], "what was lost is made again"
    make("c", request_of(finished_run), fresh=True)
    assert not Path("c/copied.txt").exists()


class Stop(BaseException):
    """What stops a command, as a signal does."""


def test_stopped_and_gone_on_with(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teacher_translation, "CHUNK_SIZE", 5)
    monkeypatch.setattr(partial_output, "SECONDS_BETWEEN_RECORDS", 0.0)
    request = request_of(finished_run, **TWO_DRAWS, noise=Noise(swap_words=2), drop_flagged=("loop",))
    make("whole", request)
    answer, places = Translator.process_lines, list[int]()

    def stopping(self: Translator, lines: Any, place: int, **options: Any) -> Any:
        if place >= 10:
            raise Stop
        places.append(place)
        return answer(self, lines, place, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "process_lines", stopping)
        with pytest.raises(Stop):
            make("c", request)
    assert {path.name for path in Path("c").iterdir() if "partial" not in path.name} == {"mono.txt"}

    def noting(self: Translator, lines: list[str], place: int, **options: Any) -> list[Translation]:
        places.append(place)
        return answer(self, lines, place, **options)

    monkeypatch.setattr(Translator, "process_lines", noting)
    done = len(places)
    make("c", request)
    assert min(places[done:]) == 10, "what was there is not drawn again"
    assert {place % 5 for place in places} == {0}, "what is drawn together is the same, stopped or not"
    contents = [{p.name: p.read_bytes() for p in Path(folder).iterdir()} for folder in ("whole", "c")]
    assert contents[0] == contents[1]


def test_what_is_there_is_used_and_another_request_is_refused(
    finished_run: Path, other_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(finished_run)
    first = make("c", request)

    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate", forbidden)
        with patch.context() as further:
            further.setattr(Translator, "load", forbidden)
            assert make("c", request) == first
        tagged = replace(request, tag="<other>")
        with pytest.raises(ConfigError) as refused:
            make("c", tagged)
        assert str(refused.value) == "the corpus in `c` was made with `tag='<bt>'`, this command has `tag='<other>'`"
        assert refused.value.hint.startswith("repeat the command that made it, choose another `out=`, or ")
        assert make("c", tagged, fresh=True) == [(f"<other>{source[4:]}", line) for source, line in first]
        Path("c/train.src").write_text("damaged\n")
        assert make("c", tagged) == make("c", tagged, fresh=True)
    with pytest.raises(ConfigError, match=f"is of `{finished_run}`, this command has `{other_weights}`"):
        make("c", replace(tagged, models=(str(other_weights),)))
    write(LINES[1:])
    before = Path("c/mono.txt").read_bytes()
    with pytest.raises(ConfigError, match="was made of another text than this command's `input=`"):
        make("c", tagged)
    assert Path("c/mono.txt").read_bytes() == before


def test_lines_that_cannot_be_used(finished_run: Path) -> None:
    Path("c").mkdir()
    Path("c/thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="`c` is not empty and holds no synthetic pairs"):
        make("c", request_of(finished_run))
    for text, error in (
        (b"", "no line of `bad` is left to translate"),
        (b"\n \n", "no line of `bad` is left to translate"),
        (b"a b\n\xff\n", "`bad` is not UTF-8: line 2, byte 1 is 0xff"),
    ):
        Path("bad").write_bytes(text)
        with pytest.raises(DataError) as refused:
            make("d", request_of(finished_run, input="bad"))
        assert str(refused.value) == error
    assert not [*Path("d").iterdir()]
    said: list[str] = []
    make("d", request_of(finished_run, input="bad", on_bad_utf8="skip"), log_line=said.append)
    assert said[0] == "2 lines in `bad`; left out: 1 not UTF-8"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"input": ""}, "`input=` is not given"),
        ({"models": ()}, "no model is given"),
        ({"drop_flagged": ("lop",)}, '`drop_flagged="lop"` is unknown; did you mean `loop`?'),
        ({"on_bad_utf8": "drop"}, 'unknown `on_bad_utf8` "drop"'),
        ({"seed": -1}, "`seed` (-1) must be at least 0"),
        ({"tag": "a b"}, '`tag="a b"` is not a symbol'),
        ({"direction": "forward", "add_copies": True}, "`add_copies` is for synthetic sources"),
    ],
)
def test_requests_that_make_no_sense(given: dict[str, Any], error: str) -> None:
    with pytest.raises(PellucidError) as refused:
        AugmentRequest(**{"models": ("run",), "input": "mono"} | given)
    assert str(refused.value).startswith(error)
    assert refused.value.hint or "seed" in given


@pytest.mark.parametrize("draws", [0, 2000])
def test_as_many_draws_as_can_be(draws: int) -> None:
    with pytest.raises(ConfigError, match=rf"`num_samples={draws}` must be from 1 to 1,024"):
        AugmentRequest(models=("run",), input="mono", teaching=SearchOptions(sample=True), num_samples=draws)


@pytest.mark.parametrize("options", [{"terms": [("a", "b")]}, {"max_length": 3}, {"decode": DecodeConfig()}])
def test_an_option_that_the_record_does_not_hold(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=f"^`{name}=` is not an option of a teacher$") as error:
        AugmentRequest(models=("run",), input="mono", teaching=SearchOptions(**options))
    assert error.value.hint.endswith("batch_tokens, sampling")
