"""Foreign models of every kind, exported to every target: the call in README.md beside Pellucid, on forty texts.

    python -m tests.parity.export.matrix [KIND ...]

prints the table: texts of which the call makes what Pellucid makes of them greedily, and where it has beams, the same
with these. A cell without a figure says why there is no such export.
"""

import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from pellucid.conversion.convert import TARGETS, Target, convert
from pellucid.conversion.counterparts import silent_transformers
from pellucid.conversion.pages import Page
from pellucid.conversion.proof import ConversionReport, read_test_sentences
from pellucid.conversion.texts import CASES
from pellucid.errors import ConfigError
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.task import open_task
from pellucid.tasks.translator import Translator
from pellucid.weights.folder import save_model
from tests.parity.foreign_tokenizers import folders
from tests.parity.foreign_tokenizers.test_translating_folders import SHAPE, make, make_talkative
from tests.unit.text.subword_models import subwords

MORE = (
    "İSTANBUL ΑΣ", "A\u030a ﬁne Ⅳ ½", "▁ a▁b", "don't; (x)", "빨간 모자. 한국어", "x" * 60, "!?", "a@b.de", "1,000.5",
)  # fmt: skip
TEXTS = [*CASES, *read_test_sentences(), *MORE]
NEW = 12
"""The tokens by which a text is continued."""
ENCODER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
DECODER = ENCODER | {"num_key_value_heads": 2, "max_position_embeddings": 400, "initializer_range": 0.3}


def save(model: Any, folder: Path) -> Path:
    """Writes a model beside its tokenizer, whose settings stay."""
    settings = (folder / "tokenizer_config.json").read_bytes()
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_bytes(settings)
    return folder


def as_json(folder: Path) -> Path:
    """Writes the tokenizer of a folder as tokenizer.json, as published folders have it, and takes its parts away."""
    import transformers as hf

    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    for name in ("vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model"):
        (folder / name).unlink(missing_ok=True)
    tokenizer.save_pretrained(folder)
    return folder


def classifier(folder: Path, name: str, size: int, **options: Any) -> Path:
    import transformers as hf

    settings = {"initializer_range": 0.5, "max_position_embeddings": 300, "num_labels": 3, "vocab_size": size}
    config = getattr(hf, f"{name}Config")(**settings | options)
    return save(getattr(hf, f"{name}ForSequenceClassification")(config), folder)


def bert(folder: Path, *, json: bool = False, name: str = "Bert") -> Path:
    folders.word_pieces(folder, tokenizer_class=f"{name}Tokenizer")
    size = len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
    if json:
        as_json(folder)
    distil = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
    return classifier(folder, name, size, **(distil if name == "DistilBert" else ENCODER))


def roberta(folder: Path) -> Path:
    folders.byte_level(folder, "roberta", tokenizer_class="RobertaTokenizer")
    return classifier(folder, "Roberta", 600, **ENCODER, type_vocab_size=1, pad_token_id=1)


def xlm_r(folder: Path) -> Path:
    folders.fairseq(folder, "xlm-roberta", "XLMRobertaTokenizer")
    size = folders_size(folder)
    return classifier(folder, "XLMRoberta", size, **ENCODER, type_vocab_size=1, pad_token_id=1)


def folders_size(folder: Path) -> int:
    from pellucid.text.foreign_files import ForeignFiles
    from pellucid.text.hugging_face_loading import load_hugging_face_tokenizers

    tokenizers = load_hugging_face_tokenizers(ForeignFiles(folder))
    assert tokenizers is not None
    return max(tokenizers.source.size, tokenizers.target.size)


def gpt2(folder: Path) -> Path:
    import transformers as hf

    folders.byte_level(folder, "gpt2", tokenizer_class="GPT2Tokenizer")
    config = hf.GPT2Config(
        vocab_size=600, n_embd=32, n_layer=2, n_head=4, n_positions=400, bos_token_id=0, eos_token_id=0,
        initializer_range=0.4,
    )  # fmt: skip
    return save(hf.GPT2LMHeadModel(config), folder)


def llama(folder: Path) -> Path:
    import transformers as hf

    folders.llama(folder)
    settings = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>"}
    folders.write(folder, tokenizer_config=settings | {"unk_token": "<unk>"})
    return save(hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=folders_size(folder), **DECODER)), folder)


def llama_3(folder: Path) -> Path:
    """Bytes in tokenizer.json, and the begin token before every text."""
    import transformers as hf
    from tokenizers import Tokenizer, processors

    folders.byte_level(folder, "gpt2", tokenizer_class="GPT2Tokenizer")
    as_json(folder)
    path = folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    first = [("<|begin_of_text|>", 600)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=first)
    tokenizer.save(str(path))
    settings = {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}
    folders.write(folder, tokenizer_config=settings | {"tokenizer_class": "PreTrainedTokenizerFast"})
    special = {"bos_token_id": 600, "eos_token_id": 601}
    return save(hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=602, **DECODER | special)), folder)


def qwen2(folder: Path) -> Path:
    import transformers as hf

    folders.byte_level(folder, "qwen2", tokenizer_class="Qwen2Tokenizer", eos_token="<|endoftext|>")
    special = {"bos_token_id": 0, "eos_token_id": 0}
    return save(hf.Qwen2ForCausalLM(hf.Qwen2Config(vocab_size=600, **DECODER | special)), folder)


def bart_json(folder: Path) -> Path:
    return as_json(make(folder, "bart"))


def nllb(folder: Path) -> Path:
    import transformers as hf

    folders.fairseq(folder, "m2m_100", "NllbTokenizer", "bpe")
    codes = {"additional_special_tokens": folders.NLLB_CODES, "src_lang": "eng_Latn", "tgt_lang": "fra_Latn"}
    folders.write(folder, tokenizer_config={"tokenizer_class": "NllbTokenizer"} | codes)
    as_json(folder)
    size = len(hf.AutoTokenizer.from_pretrained(folder))
    model = hf.M2M100ForConditionalGeneration(hf.M2M100Config(vocab_size=size, **SHAPE))
    make_talkative(model)
    return save(model, folder)


def marian_apart(folder: Path) -> Path:
    """Two vocabularies of their own."""
    import transformers as hf

    size = 0
    for side, seed in (("source", 3), ("target", 4)):
        pieces = folders.sentencepiece(folder / f"{side}.spm", seed=seed)
        words = [piece for piece in pieces if piece not in ("<unk>", "<s>", "</s>")]
        listed = ["</s>", "<unk>", *(words if side == "source" else words[::-1]), "<pad>"]
        size = len(listed)
        folders.write(folder, **{"vocab" if side == "source" else "target_vocab": {t: i for i, t in enumerate(listed)}})
    settings = {"tokenizer_class": "MarianTokenizer", "source_lang": "de", "target_lang": "en", "separate_vocabs": True}
    folders.write(folder, config={"model_type": "marian"}, tokenizer_config=settings)
    special = {"pad_token_id": size - 1, "eos_token_id": 0, "decoder_start_token_id": size - 1}
    sizes = {"vocab_size": size, "decoder_vocab_size": size, "share_encoder_decoder_embeddings": False}
    model = hf.MarianMTModel(hf.MarianConfig(**SHAPE, **special, **sizes, scale_embedding=True))
    make_talkative(model)
    return save(model, folder)


def mt5(folder: Path) -> Path:
    import transformers as hf

    folders.t5(folder)
    folders.write(folder, tokenizer_config={"tokenizer_class": "T5Tokenizer", "extra_ids": 0})
    config = hf.MT5Config(
        vocab_size=folders_size(folder) + 8, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
        decoder_start_token_id=0, tie_word_embeddings=False, initializer_factor=1.0,
    )  # fmt: skip
    model = hf.MT5ForConditionalGeneration(config)
    make_talkative(model)
    return save(model, folder)


def own(folder: Path) -> Path:
    from pellucid.config import DecodeConfig, ModelConfig
    from pellucid.model.transformer import Transformer
    from pellucid.text.tokenizers import TokenizerPair

    tokenizer = subwords("bpe")
    sizes = {"src_vocab_size": tokenizer.size, "tgt_vocab_size": tokenizer.size, "max_positions": 400}
    config = ModelConfig.preset(
        "tiny", **sizes, norm="post", positions="sinusoidal", tie_embeddings="all", qk_norm=False
    )
    model = Transformer(config).eval()
    save_model(folder, model, TokenizerPair(tokenizer), DecodeConfig(beam_size=4, max_length=20), card="")
    return folder


KINDS: dict[str, Callable[[Path], Path]] = {
    "BERT, vocab.txt": bert,
    "BERT, tokenizer.json": lambda folder: bert(folder, json=True),
    "RoBERTa": roberta,
    "DistilBERT": lambda folder: bert(folder, name="DistilBert"),
    "XLM-R": xlm_r,
    "GPT-2": gpt2,
    "Llama, SentencePiece": llama,
    "Llama 3, bytes": llama_3,
    "Qwen2": qwen2,
    "BART, parts": lambda folder: make(folder, "bart"),
    "BART, tokenizer.json": bart_json,
    "mBART-25": lambda folder: make(folder, "mbart"),
    "mBART-50": lambda folder: make(folder, "mbart-50"),
    "M2M-100": lambda folder: make(folder, "m2m-100"),
    "NLLB": nllb,
    "Marian": lambda folder: make(folder, "marian"),
    "Marian, two vocabularies": marian_apart,
    "T5": lambda folder: make(folder, "t5"),
    "mT5": mt5,
    "Pellucid's own": own,
}
LANGUAGES: dict[str, tuple[str, str]] = {
    "mBART-25": ("en_XX", "ro_RO"),
    "mBART-50": ("de_DE", "fr_XX"),
    "M2M-100": ("de", "fr"),
    "NLLB": ("eng_Latn", "fra_Latn"),
}


@dataclass(frozen=True)
class Cell:
    """An export of one kind to one target."""

    proof: ConversionReport | None = None
    refused: str = ""
    equal: int = 0
    with_beams: int | None = None
    other: str = ""

    def __str__(self) -> str:
        if self.proof is None:
            return self.refused
        beams = "" if self.with_beams is None else f" ({self.with_beams})"
        return f"{self.equal}{beams}" + ("" if self.proof.passed else ", NOT equal")


def cell(source: Path, place: Path, kind: str, target: Target) -> Cell:
    """Converts a folder, and gives the call of the new one's README.md all texts."""
    source_language, target_language = LANGUAGES.get(kind, (None, None))
    spoken = {"source_language": source_language, "target_language": target_language}
    more: dict[str, Any] = {"weights": "float32"} if target == "page" else {}
    try:
        proof = convert(source, place, to=target, **spoken, **more)
    except ConfigError as error:
        return Cell(refused=str(error))
    ours = open_task(source, "cpu")

    def made(text: str, beams: int | None = 1) -> Any:
        if isinstance(ours, Translator):
            return ours.translate([text], beam_size=beams, segment="off", **spoken)[0].text
        if isinstance(ours, LanguageModel):
            return text + ours.generate([text], max_new_tokens=NEW)[0].text
        assert isinstance(ours, Classifier)
        return ours.classify([text])[0].probabilities

    task = (
        "translate" if isinstance(ours, Translator) else "generate" if isinstance(ours, LanguageModel) else "classify"
    )
    function = Page(place, ours.model.config).function(task) if target == "page" else called(place, task)
    options = {"max_new_tokens": NEW} if task == "generate" else {}
    beams = task == "translate" and target in ("hf", "ct2")
    equal, with_beams, other = 0, 0, ""
    with silent_transformers():
        for text in TEXTS:
            expected, found = made(text), function(text, **options | ({"beam_size": 1} if beams else {}))
            equal += same(expected, found)
            if not same(expected, found):
                other = other or f"{text!r}: {found!r}, not {expected!r}"
            if beams:
                with_beams += made(text, None) == function(text)
    return Cell(proof, "", equal, with_beams if beams else None, other)


def called(folder: Path, name: str) -> Callable[..., Any]:
    """Returns the function that README.md shows, by executing what stands there."""
    code = re.search(r"```py\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert code
    names: dict[str, Any] = {"print": lambda *_: None}
    exec(code[1].replace("FOLDER", str(folder)), names)
    function: Callable[..., Any] = names[name]
    return function


def same(ours: Any, theirs: Any) -> bool:
    """Tells whether both are the same text, or probabilities."""
    if isinstance(ours, str):
        return bool(ours == theirs)
    return ours.keys() == theirs.keys() and np.allclose(list(ours.values()), [theirs[key] for key in ours], atol=1e-4)


def main(kinds: list[str]) -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    targets = [target for target in TARGETS if target != "pellucid"]
    print(f"| of {len(TEXTS)} texts | {' | '.join(targets)} |\n|{' --- |' * (len(targets) + 1)}")
    for kind in kinds or KINDS:
        with TemporaryDirectory() as name:
            torch.manual_seed(11)
            source = Path(name) / "source"
            source.mkdir()
            KINDS[kind](source)
            cells = []
            for target in targets:
                place = Path(name) / (f"{target}.html" if target == "page" else target)
                cells.append(cell(source, place, kind, target))
                if cells[-1].other:
                    print(f"{kind}, {target}: {cells[-1].other}", file=sys.stderr)
        print(f"| {kind} | {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
