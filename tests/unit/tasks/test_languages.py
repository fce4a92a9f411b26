"""Languages of multilingual models: where their codes stand, and what is said where they cannot."""

from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DecodeConfig
from pellucid.errors import ConfigError, DataError
from pellucid.tasks.languages import check_languages, find_source_language, set_languages
from pellucid.tasks.translator import Translator
from pellucid.text.foreign_files import ForeignFiles
from pellucid.text.hugging_face_loading import load_hugging_face_tokenizers
from pellucid.text.language_codes import language_ids
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from tests.parity.foreign_tokenizers import folders
from tests.unit.decoding.models import random_model

SENTENCES = TrainingTextStats(sentence_ends=1.0, several_sentences=0.0)
LINES = ["der Hund", "", "ein Fuchs und ein Haus"]


def translator(folder: Path, kind: str = "m2m_100", codes: tuple[str, ...] = (), **fields: Any) -> Translator:
    """A random model that reads and writes with a foreign tokenizer."""
    make = getattr(folders, kind)
    tokenizers = load_hugging_face_tokenizers(ForeignFiles(make(folder, codes) if codes else make(folder)))
    assert tokenizers is not None
    first = tokenizers.source
    ids = {"pad_id": first.pad_id, "bos_id": first.bos_id, "eos_id": first.eos_id}
    model = random_model(3, first.size, **ids | fields)
    return Translator(model, tokenizers, DecodeConfig(beam_size=2, max_length=6), language_ids(tokenizers))


def spoken(t: Translator, decode: DecodeConfig, source: str | None, target: str | None) -> DecodeConfig:
    return set_languages(decode, t.model.config, t.tokenizers, t.languages, source, target)


def test_codes_stand_before_the_source_and_first_in_the_output(tmp_path: Path) -> None:
    t = translator(tmp_path)
    de, fr = t.languages["de"], t.languages["fr"]
    decode = spoken(t, DecodeConfig(beam_size=3, source_prefix=(fr,)), "de", "fr")
    assert decode == DecodeConfig(beam_size=3, source_prefix=(de,), target_prefix=(fr,))
    assert spoken(t, decode, None, "de").source_prefix == (de,)
    assert spoken(t, decode, None, "de").target_prefix == (de,)
    assert spoken(t, decode, None, None) is decode


def test_codes_of_opus_mt_stand_before_the_source(tmp_path: Path) -> None:
    t = translator(tmp_path, "marian", ("fra", "por"))
    assert spoken(t, DecodeConfig(), None, "por") == DecodeConfig(source_prefix=(t.languages["por"],))
    check_languages(DecodeConfig(), t.model.config, t.tokenizers, t.languages)  # the text may have one
    with pytest.raises(ConfigError, match=r'`source_language="fra"` has no effect on this model, whose codes are for'):
        spoken(t, DecodeConfig(), "fra", "por")


def test_a_code_in_a_line_is_that_of_each_of_its_sentences(tmp_path: Path) -> None:
    t = translator(tmp_path, "marian", ("fra", "por"))
    t.text = SENTENCES
    (found,) = t.translate([">>fra<< Der Hund schläft. Ein Fuchs kommt."], repair="off")
    assert [s.source for s in found.sentences] == [">>fra<< Der Hund schläft.", ">>fra<< Ein Fuchs kommt."]
    assert [s.text for s in found.sentences] == [
        f.text for f in t.translate(["Der Hund schläft.", "Ein Fuchs kommt."], target_language="fra", repair="off")
    ]


def test_the_language_of_a_source_decides_where_it_is_cut(tmp_path: Path) -> None:
    t = translator(tmp_path)
    t.text = SENTENCES
    line = "Er ist am 3. Mai da."
    for code, count in (("de", 1), ("en", 2)):
        (found,) = t.translate([line], source_language=code, target_language="fr")
        assert len(found.sentences) == count
    (tmp_path / "opus").mkdir()
    opus = translator(tmp_path / "opus", "marian", ("eng", "por"))
    assert (
        find_source_language(DecodeConfig(source_prefix=(opus.languages["eng"],)), opus.tokenizers, opus.languages)
        == ""
    )


def test_a_decoder_that_starts_with_a_code(tmp_path: Path) -> None:
    t = translator(tmp_path)
    t.model.config = type(t.model.config)(**{**_fields(t), "bos_id": t.languages["ro"]})
    assert spoken(t, DecodeConfig(), "en", "ro") == DecodeConfig(source_suffix=(t.languages["en"],))
    with pytest.raises(ConfigError, match="this model translates into `ro` only, not into `fr`"):
        spoken(t, DecodeConfig(), "en", "fr")
    with pytest.raises(ConfigError, match="100 languages, and `source_language=` is not given"):
        t.translate(["a"])


def _fields(t: Translator) -> dict[str, Any]:
    return {name: getattr(t.model.config, name) for name in t.model.config.__slots__}


def test_each_call_may_name_its_languages(tmp_path: Path) -> None:
    t = translator(tmp_path)
    first = t.translate(LINES, source_language="de", target_language="fr")
    assert [translation.text != "" for translation in first] == [True, False, True]
    assert first != t.translate(LINES, source_language="de", target_language="en")
    t.decode = spoken(t, t.decode, "de", "fr")
    assert t.translate(LINES) == first
    shown = {token for translation in first for token in translation.tokens}
    assert "__fr__" not in shown or not any(translation.tokens[:1] == ["__fr__"] for translation in first)
    forced = t.score(["der Hund"], ["le chien"])
    assert forced != t.score(["der Hund"], ["le chien"], target_language="en")
    assert forced == pytest.approx(t.score(["der Hund"], ["le chien"], source_language="de", target_language="fr"))
    drawn = t.sample(LINES, source_language="de", target_language="en")
    assert [translation.text for translation in drawn] != [translation.text for translation in t.sample(LINES)]


def test_codes_take_room(tmp_path: Path) -> None:
    t = translator(tmp_path, max_positions=12)
    t.decode = spoken(t, DecodeConfig(beam_size=1, max_length=3), "de", "fr")
    line = " ".join(["Hund"] * 11)
    assert len(t.tokenizers.source.encode(line)) >= 11
    with pytest.warns(UserWarning, match=r"longer than the model takes \(10\)"):
        t.translate([line])
    with pytest.raises(DataError, match="the model's limit is 10"):
        t.score([line], ["a"])
    with pytest.raises(DataError, match="target 1 has 11 tokens; the model's limit is 10"):
        t.score(["a"], [line])


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("de", None, "`target_language=` is not given"),
        (None, "de", "`source_language=` is not given"),
        (None, None, "100 languages, and `source_language=` and `target_language=` are not given"),
        ("de", "Fr", 'unknown `target_language="Fr"`; similar codes are fr'),
        ("deu", "fr", 'unknown `source_language="deu"`; similar codes are de'),
        ("de", "", 'unknown `target_language=""`; similar codes are af, am,'),
        ("de", "qqq", 'unknown `target_language="qqq"`$'),
    ],
)
def test_languages_that_are_missing_or_unknown(
    source: str | None, target: str | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        translator(tmp_path).translate(["a"], source_language=source, target_language=target)
    assert "codes: af, am, ar, ast, az, ba, be, bg, bn, br, bs, ca, ..." in caught.value.hint


def test_a_model_without_codes_refuses_them(tmp_path: Path) -> None:
    t = translator(tmp_path, "marian")
    assert t.languages == {}
    assert len(t.translate(LINES)) == 3
    with pytest.raises(ConfigError, match=r'`target_language="fr"` has no effect on this model') as caught:
        t.translate(LINES, target_language="fr")
    assert caught.value.hint == "leave it out"
    with pytest.raises(ConfigError, match="has no effect"):
        Translator(t.model, TokenizerPair(t.tokenizers.source, t.tokenizers.source)).score(
            ["a"], ["b"], source_language="x"
        )
