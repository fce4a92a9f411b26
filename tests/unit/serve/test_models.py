"""The models of a server: their pairs, pivots, and the models in memory."""

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.errors import CheckpointError, ConfigError
from pellucid.serve.languages import Detector, display_code, find_code, language_name, normalize_code
from pellucid.serve.models import ModelPool, available_memory, read_model
from pellucid.tasks.translator import Translator
from pellucid.text.training_text import TrainingTextStats
from pellucid.weights.folder import DESCRIPTION


@pytest.fixture
def stated(finished_run: Path, tmp_path: Path) -> Path:
    """A folder that states its pair."""
    found = Translator.load(finished_run, "cpu")
    found.text = TrainingTextStats(pairs=("de-en",))
    found.save(tmp_path / "stated")
    return tmp_path / "stated"


def test_the_pair_is_the_folders_own_or_the_one_before_it(stated: Path, finished_run: Path) -> None:
    assert read_model(str(stated)).pairs == {("de", "en"): ("", "")}
    assert read_model(f"deu_Latn-pt_BR={finished_run}".replace("deu_Latn", "deu")).pairs == {("de", "pt-br"): ("", "")}
    assert read_model(f"fr-it={stated}").pairs == {("fr", "it"): ("", "")}, "the caller knows better"


def test_a_folder_without_a_pair_is_refused_with_a_hint(finished_run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"does not state its language pair$") as refused:
        ModelPool([finished_run])
    assert refused.value.hint == f"write the pair before it, as in `de-en={finished_run}`"
    for name in ("", str(tmp_path / "none"), f"de-en={tmp_path / 'none'}"):
        with pytest.raises((ConfigError, CheckpointError)):
            ModelPool([name])
    with pytest.raises(ConfigError, match="requires a list of models"):
        ModelPool(str(finished_run))
    with pytest.raises(ConfigError, match="both translate de-en"):
        ModelPool([f"de-en={finished_run}", f"DE-en={finished_run}"])


def test_a_model_of_several_languages_has_its_pairs(stated: Path) -> None:
    table = json.loads((stated / DESCRIPTION).read_text(encoding="utf-8"))
    table["languages"], table["text"]["pairs"] = {"en": 5, "pt_BR": 6}, ["de-en", "de-pt_BR"]
    (stated / DESCRIPTION).write_text(json.dumps(table), encoding="utf-8")
    pool = ModelPool([stated])
    assert pool.by_pair.keys() == {("de", "en"), ("de", "pt-br")}
    [leg] = pool.find("de", "pt-br") or []
    assert leg.options == {"source_language": "de", "target_language": "pt_BR"}
    assert read_model(f"de-en={stated}").pairs == {("de", "en"): ("de", "en")}
    with pytest.raises(ConfigError, match="does not translate en-de") as refused:
        read_model(f"en-de={stated}")
    assert refused.value.hint == "its pairs are `de-en`, `de-pt-br`"


def test_a_pivot(stated: Path, finished_run: Path) -> None:
    models = [stated, f"en-fr={finished_run}"]
    pool = ModelPool(models, pivot="EN")
    assert [leg.pair for leg in pool.find("de", "fr") or []] == [("de", "en"), ("en", "fr")]
    assert pool.find("fr", "de") is None
    assert pool.targets_of("de") == ["en", "fr"]
    assert ModelPool(models).find("de", "fr") is None
    with pytest.raises(ConfigError, match="`pivot=de` is not both the target of a model and the source of another"):
        ModelPool(models, pivot="de")


def test_models_are_loaded_once_and_removed_when_memory_is_short(stated: Path, finished_run: Path) -> None:
    free: list[int | None] = [None]
    models = [stated, f"en-fr={finished_run}", f"fr-it={finished_run}"]
    pool = ModelPool(models, loading={"device": "cpu"}, available=lambda: free[0])
    first, second, third = pool.models
    for model in (first, second):
        with pool.use(model) as one, pool.use(model) as other:
            assert one is other
    free[0] = 0
    with pool.use(second), pool.use(third):
        assert first.translator is None, "it was not used for the longest time"
        assert second.translator is not None, "it is in use"
    with pool.use(first) as again:
        assert again.translate(["a b"])[0].text
    assert (second.translator, third.translator) == (None, None)
    found: Any = available_memory()
    assert found is None or found > 1 << 20


@pytest.mark.parametrize(
    ("code", "known", "found"),
    [
        ("DE", {"de"}, "de"), ("de_DE", {"de"}, "de"), ("deu", {"de"}, "de"), ("zh-Hans", {"zh"}, "zh"),
        ("zh_CN", {"zh-hans", "zh-hant"}, "zh-hans"), ("zt", {"zh-hant"}, "zh-hant"), ("pb", {"pt-br"}, "pt-br"),
        ("pt", {"pt-br"}, "pt-br"), ("pt-PT", {"pt"}, "pt"), ("nb", {"no"}, "no"), ("no", {"nb"}, "nb"),
        ("nb_NO", {"no", "nn"}, "no"), ("nn", {"nb"}, "nb"), ("nn", {"nn", "nb"}, "nn"), ("nb", {"nn"}, None),
        ("iw", {"he"}, "he"), ("zz", {"de"}, None), ("", {"de"}, None), ("d" * 5000, {"de"}, None),
        ("../de", {"de"}, None),
    ],
)  # fmt: skip
def test_a_code_as_clients_write_it(code: str, known: set[str], found: str | None) -> None:
    assert find_code(code, known) == found


def test_codes_and_names() -> None:
    assert (normalize_code("eng_Latn"), normalize_code("en_XX"), normalize_code(" zh_Hant ")) == (
        "en-latn",
        "en",
        "zh-hant",
    )
    assert (display_code("pt-br"), display_code("zh-hans"), display_code("de")) == ("pt-BR", "zh-Hans", "de")
    names = [language_name(code) for code in ("de", "pt-br", "sr-latn", "xx")]
    assert names == ["German", "Portuguese (Brazilian)", "Serbian (Latn)", "xx"]


@pytest.mark.slow
def test_a_language_is_detected_among_those_that_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["Ein Hund läuft über die Wiese.", "The weather is very nice today.", "Il fait très beau à la montagne."]
    served = Detector(["de"], ["de", "en"])
    assert [served.detect(text)[0] for text in texts[:2]] == ["de", "en"]
    assert served.detect(texts[2])[0] in ("de", "en")
    assert Detector(["de"], ["de", "en", "fr"]).detect(texts[2])[0] == "fr"
    assert served.detect("🙂 12:30") == ("en", 0.0)
    monkeypatch.setattr("pellucid.data.identification.Identifier", _refuse)
    assert Detector(["de"], ["de", "en"]).detect(texts[1]) == ("de", 0.5), "without the extra: the only source"


def _refuse(languages: object) -> None:
    raise ConfigError("not installed")
