"""Which of sacreBLEU's tokenizers suits a text, and that a score is then sacreBLEU's own."""

from pathlib import Path
from typing import Any

import pytest
from sacrebleu import corpus_bleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers import tokenizer_ja_mecab, tokenizer_ko_mecab

from pellucid.errors import ConfigError
from pellucid.evaluation import tokenization as ours
from pellucid.evaluation.scores import score_corpus
from pellucid.evaluation.tokenization import TOKENIZERS, bleu_metric, detect_bleu_script, tokenizer_for

WITHOUT_DICTIONARY = ("13a", "zh", "char", "intl", "none")


@pytest.mark.parametrize(
    ("text", "script", "tokenizer"),
    [
        ("Ein Hund läuft über die Straße.", "other", "13a"),
        ("Собака бежит по улице.", "other", "13a"),
        ("कुत्ता सड़क पर दौड़ता है।", "other", "13a"),
        ("الكلب يجري في الشارع.", "other", "13a"),
        ("一只狗在街上跑。", "chinese", "zh"),
        ("一隻狗在街上跑。PyTorch 2.0", "chinese", "zh"),
        ("犬が通りを走っている。", "japanese", "char"),
        ("ﾃｽﾄ ﾓｰﾄﾞ", "japanese", "char"),
        ("개가 거리를 달린다.", "korean", "char"),
        ("สุนัขวิ่งบนถนน", "unspaced", "char"),
        ("ឆ្កែកំពុងរត់", "unspaced", "char"),
        ("ခွေးလမ်းပေါ်", "unspaced", "char"),
        ("2026-11-22 14:00", "other", "13a"),
        ("", "other", "13a"),
        ("\x00\ud800", "other", "13a"),
    ],
)
def test_the_script_chooses(text: str, script: str, tokenizer: str) -> None:
    assert (detect_bleu_script([text]), tokenizer_for([text])) == (script, tokenizer)


@pytest.mark.parametrize(("letters", "script"), [("字" * 25 + "a" * 75, "chinese"), ("字" * 24 + "a" * 76, "other")])
def test_a_quarter_of_the_letters_decides(letters: str, script: str) -> None:
    assert detect_bleu_script(["12, ", *letters]) == script


def test_a_kana_in_twenty_is_japanese() -> None:
    assert detect_bleu_script(["漢" * 19 + "の"]) == "japanese"
    assert detect_bleu_script(["漢" * 20 + "の"]) == "chinese"


HYPOTHESES = ["一只狗在街上跑。", "개가 길을 달린다 .", "A dog, 2.5 m « runs » away."]
REFERENCES = ["一只黑狗在街上跑步。", "개가 길에서 달린다 .", "A dog (2.5 m) « ran » away."]


@pytest.mark.parametrize("tokenize", WITHOUT_DICTIONARY)
def test_scores_are_those_of_sacrebleu_with_each_tokenizer(tokenize: str) -> None:
    scores = score_corpus(HYPOTHESES, REFERENCES, tokenize=tokenize, resamples=40)
    theirs = corpus_bleu(HYPOTHESES, [REFERENCES], tokenize=tokenize, force=True)
    assert scores.bleu == pytest.approx(theirs.score)
    assert f"|tok:{tokenize}|" in scores.signature
    assert f"|tok:{tokenize}|" in scores.signature_lowercase


def test_chinese_is_no_longer_zero() -> None:
    sentences = ["一只黑狗在街上跑步", "两个男人在看一场足球比赛"]
    wrong = ["一只黑狗在街上走路", "两个女人在看一场足球比赛"]
    scores = score_corpus(wrong, sentences, resamples=40)
    assert "|tok:zh|" in scores.signature
    assert scores.bleu == pytest.approx(BLEU(trg_lang="zh", force=True).corpus_score(wrong, [sentences]).score)
    assert scores.bleu > 40
    assert score_corpus(wrong, sentences, tokenize="13a", resamples=40).bleu == pytest.approx(0)


def test_an_unknown_tokenizer_is_an_error() -> None:
    with pytest.raises(ConfigError, match="the tokenizer `intel` is unknown; did you mean `intl`") as found:
        bleu_metric("intel")
    assert found.value.hint == f"choose one of auto, {', '.join(TOKENIZERS)}"
    with pytest.raises(ConfigError, match=f"the tokenizer `{'x' * 80}` is unknown"):
        bleu_metric("x" * 1000)


@pytest.mark.parametrize(
    ("tokenize", "module", "package"),
    [("ja-mecab", tokenizer_ja_mecab, "sacrebleu[ja]"), ("ko-mecab", tokenizer_ko_mecab, "sacrebleu[ko]")],
)
def test_a_dictionary_that_is_not_installed(
    tokenize: str, module: Any, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MeCab", None)
    with pytest.raises(ConfigError, match=f"the tokenizer `{tokenize}` requires a dictionary that is not") as found:
        score_corpus(["a"], ["a"], tokenize=tokenize)
    assert found.value.hint == f'install it, `pip install "{package}"`, or choose `char`'


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ours, "SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(
        ConfigError, match="the tokenizer `flores200` requires a SentencePiece model that is missing"
    ) as found:
        score_corpus(["a"], ["a"], tokenize="flores200")
    assert found.value.hint == "let sacreBLEU download it once: `sacrebleu REF -i OUTPUT --tokenize flores200`"
