"""Folders of transformers as the start of a training: the loss is theirs, and the result is used as the start was."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from pellucid.tasks.language_model import LanguageModel
from pellucid.weights.folder import read_config
from pellucid.weights.opening import open_folder
from tests.parity.foreign_tokenizers import folders
from tests.parity.foreign_tokenizers.test_continuing_folders import make as make_language_model
from tests.parity.foreign_tokenizers.test_translating_folders import FAMILIES, LINES, make
from tests.toy_task import write_pairs
from tests.unit.cli.command_line import CommandLine, Outcome

pytestmark = [pytest.mark.foreign, pytest.mark.filterwarnings("ignore::UserWarning")]

SETTINGS = (
    "train.steps=3", "train.warmup_steps=1", "train.schedule=constant", "train.learning_rate=1e-9",
    "train.label_smoothing=0", "train.batch_tokens=100000", "train.log_every=1", "train.validate_every=3",
    "train.decode_and_evaluate=3", "train.save_every=3", "train.precision=float32",
    "train.average=1", "model.dropout=0", "model.attention_dropout=0", "model.feed_forward_dropout=0",
)  # fmt: skip
PAIRS = list(zip(LINES[:12], LINES[12:24], strict=True))
SPOKEN = FAMILIES | {"marian-codes": (None, "fra")}


class Tuning:
    """A folder, texts, and the command that trains on them."""

    def __init__(self, capsys: pytest.CaptureFixture[str], place: Path) -> None:
        self.pellucid, self.start, self.run = CommandLine(capsys), place / "start", place / "run"
        self.start.mkdir()
        self.place = place

    def train(self, pairs: list[tuple[str, str]], *options: object, recipe: str = "default") -> Outcome:
        (src, tgt), (valid_src, valid_tgt) = (write_pairs(self.place, pairs, name) for name in ("train", "valid"))
        settings = [part for setting in SETTINGS for part in ("--set", setting)]
        texts = ["--src", src, "--tgt", tgt, "--valid-src", valid_src, "--valid-tgt", valid_tgt]
        out = ["--init-from", self.start, "--out", self.run, "--device", "cpu"]
        return self.pellucid("train", recipe, *texts, *out, *settings, *options)

    def losses(self) -> tuple[float, float]:
        """Of the first step, and of the validation before it."""
        rows = [json.loads(line) for line in (self.run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        first = {row["event"]: row["loss"] for row in reversed(rows) if row["step"] <= 1 and "loss" in row}
        return first["train"], first["validation"]


@pytest.fixture
def tuning(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Tuning:
    return Tuning(capsys, tmp_path)


def options_of(source: str | None, target: str | None) -> list[str]:
    return [*(["--src-lang", source] if source else []), *(["--tgt-lang", target] if target else [])]


def loss_outside(folder: Path, kind: str, source: str | None, target: str | None) -> float:
    """The mean over the labels that the folder's tokenizer makes of PAIRS, by the folder's model."""
    import transformers as hf

    named = {"src_lang": source, "tgt_lang": target or "ro_RO"} if source else {}
    tokenizer = hf.AutoTokenizer.from_pretrained(folder, **named)
    model = hf.AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager").eval()
    total, count = 0.0, 0
    for src, tgt in PAIRS:
        text = f">>{target}<< {src}" if kind == "marian-codes" else src
        labels = tokenizer(text_target=tgt, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            logits = model(**tokenizer(text, return_tensors="pt"), labels=labels).logits[0]
        if kind == "mbart":  # it is also to write the code of its language behind the end, which nothing ever reads
            assert labels[0, -2] == model.config.eos_token_id
            logits, labels = logits[:-1], labels[:, :-1]
        total += float(torch.nn.functional.cross_entropy(logits, labels[0], reduction="sum"))
        count += labels.size(1)
    return total / count


@pytest.mark.parametrize("kind", SPOKEN)
def test_the_loss_is_theirs_and_the_run_translates_as_the_start_did(kind: str, tuning: Tuning) -> None:
    make(tuning.start, kind)
    if kind == "bart":  # as published models that write have it
        path = tuning.start / "generation_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"forced_bos_token_id": 0}))
    source, target = SPOKEN[kind]
    done = tuning.train(PAIRS, *options_of(source, target))
    assert done.status == 0, done.err
    expected = loss_outside(tuning.start, kind, source, target)
    assert tuning.losses() == pytest.approx((expected, expected), abs=2e-4)

    start, table = open_folder(tuning.start, torch.device("cpu")), read_config(tuning.run)
    assert table.get("languages", {}) == start.languages
    assert table["decode"]["suppress_tokens"] == list(start.decode.suppress_tokens)
    lines = tuning.place / "lines"
    lines.write_text("".join(f"{line}\n" for line in LINES[:8]), encoding="utf-8")
    search = ["--input", lines, "--max-length", 6, "--device", "cpu"]
    before = tuning.pellucid("translate", tuning.start, *search, *options_of(source, target))
    # Only a run, whose training text is known, protects and repairs by default.
    after = tuning.pellucid("translate", tuning.run, *search, "--protect", "off", "--repair", "off")
    assert (after.status, after.out) == (0, before.out)
    assert len(set(after.out.splitlines())) > 2


def test_languages_must_be_known_and_stay(tuning: Tuning) -> None:
    make(tuning.start, "m2m-100")
    refused = tuning.train(PAIRS, "--src-lang", "de")
    assert refused.status == 2
    assert refused.error.endswith("100 languages, and `--tgt-lang` is not given")
    assert not tuning.run.exists()
    assert tuning.train(PAIRS, "--src-lang", "de", "--tgt-lang", "fr").status == 0
    shutil.rmtree(tuning.start)
    again = tuning.train(PAIRS, "--src-lang", "de", "--tgt-lang", "fr")
    assert (again.status, again.err.split(";")[0]) == (0, f"{tuning.run}: already finished, nothing to do")
    other = tuning.train(PAIRS, "--src-lang", "de", "--tgt-lang", "ko")
    assert other.status == 2
    assert "has `decode.target_prefix = [" in other.error


def test_a_run_goes_on_from_a_run_in_another_language(tuning: Tuning) -> None:
    make(tuning.start, "m2m-100")
    assert tuning.train(PAIRS, "--src-lang", "de", "--tgt-lang", "fr").status == 0
    first, tuning.start, tuning.run = tuning.start, tuning.run, tuning.place / "second"
    done = tuning.train(PAIRS, "--tgt-lang", "ko")
    assert done.status == 0, done.err
    expected = loss_outside(first, "m2m-100", "de", "ko")
    assert tuning.losses() == pytest.approx((expected, expected), abs=2e-4)


@pytest.mark.parametrize(("kind", "starts"), [("llama", True), ("gpt2", False)])
def test_a_language_model_keeps_its_start(kind: str, starts: bool, tuning: Tuning) -> None:
    """GPT-2 has none: there the lines of a text begin with the token that ends one, as its own training data did."""
    model, tokenizer = make_language_model(tuning.start, kind, True, **({"add_bos_token": True} if starts else {}))
    texts = [f"{src[:12]}" for src, _ in PAIRS]
    (tuning.place / "texts").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    settings = [
        part
        for setting in (*SETTINGS, 'data.text="lines"', "train.final_learning_rate=0")
        for part in ("--set", setting)
    ]
    done = tuning.pellucid(
        "train", "tiny-shakespeare", "--src", tuning.place / "texts", "--valid-src", tuning.place / "texts",
        "--init-from", tuning.start, "--out", tuning.run, "--device", "cpu", *settings,
    )  # fmt: skip
    assert done.status == 0, done.err
    first, end = tokenizer.bos_token_id, model.config.eos_token_id
    total, count = 0.0, 0
    for text in texts:
        ids = [first, *tokenizer(text, add_special_tokens=False)["input_ids"], end]
        with torch.inference_mode():
            loss = float(model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss)
        total, count = total + loss * (len(ids) - 1), count + len(ids) - 1
    assert tuning.losses() == pytest.approx((total / count, total / count), abs=2e-4)
    trained = LanguageModel.load(tuning.run, "cpu")
    assert trained.reads_lines
    assert trained.decode.source_prefix == (first,)


def test_a_classifier_reads_what_its_start_read(tuning: Tuning) -> None:
    import transformers as hf

    folders.word_pieces(tuning.start)
    tokenizer = hf.AutoTokenizer.from_pretrained(tuning.start)
    shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 32}
    config = hf.BertConfig(vocab_size=len(tokenizer), **shape, id2label={0: "early", 1: "late"})
    torch.manual_seed(3)
    model = hf.BertForSequenceClassification(config).eval()
    model.save_pretrained(tuning.start)
    rows = [(src, ("early", "late")[place % 2]) for place, (src, _) in enumerate(PAIRS)]
    done = tuning.train(rows, "--set", "train.r_drop=0", recipe="sst2")
    assert done.status == 0, done.err
    total = 0.0
    for text, label in rows:
        with torch.inference_mode():
            found = model(**tokenizer(text, return_tensors="pt"), labels=torch.tensor([label == "late"]).long())
        total += float(found.loss)
    assert tuning.losses() == pytest.approx((total / len(rows), total / len(rows)), abs=2e-4)
