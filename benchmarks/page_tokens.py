"""The tokenizers in JavaScript, which a page with a model carries, against Python's: the same ids and text.

    python benchmarks/page_tokens.py [--strings 100000] [--kinds bpe,unigram] [--data-dir DATA] > page_tokens.json

Each kind is trained small on the repository's own text, then reads lines of it, hostile strings drawn at random, and
with `--data-dir` Multi30k in German, English, French and Czech. Decoded are what was read and ids drawn at random.
Needs Node; the kinds named `tokenizer.json` need the extra `hf`. A row a kind: how many are equal.
"""

import argparse
import gzip
import io
import json
import struct
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from report import circumstances, positive, print_json, program, refusals_in_words

from pellucid.errors import DataError
from pellucid.text.hugging_face import HuggingFaceTokenizer
from pellucid.text.normalization_rules import nmt_nfkc_map
from pellucid.text.remapped_sentencepiece import RemappedSentencePiece
from pellucid.text.sentencepiece_file import fields, message
from pellucid.text.special_ids import SpecialIds
from pellucid.text.subwords import FOREIGN_KIND, SentencePieceTokenizer
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.tokenizer_json_writing import tokenizer_json
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.text.tokenizers import TokenizerPair

ROOT = Path(__file__).resolve().parents[1]
LANGUAGES = ("de", "en", "fr", "cs")
SAMPLES = [
    "Der schnelle braune Fuchs springt über den faulen Hund, größere Häuser stehen dort.",
    "L'été dernier, nous avons mangé des crêpes à la plage : il faisait très chaud !",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "今天天气很好。我们在公园里散步，他说：这本书非常有趣！",
    "今日は天気がとてもいいです。カタカナ、ｶﾀｶﾅもあります。",
    "اليوم الطقس جميل جدا، ونحن نمشي في الحديقة؛ مُحَمَّد هنا.",
    "आज मौसम बहुत अच्छा है और हम पार्क में घूम रहे हैं।",
    "Сегодня очень хорошая погода, и мы гуляем в парке: ёлка.",
    "12 March 2024 -> 2024-03-12; 3.5 % of 1,000 at 10:30",
]
SPELLED = [
    "<s>", "</s>", "<pad>", "<unk>", "<0x41>", "<0xE2>", "[CLS]", "[SEP]", "[UNK]", "<|endoftext|>", ">>fra<<", ">>x<<",
    "<sep>", "##", "Ġ", "▁", "▁▁", "\x1b", "\x1b_", "\x1b\x1b", "</w>", "@@", "__de__", "don't", " n't", "\ufffd", "☃",
    "e\u0301", "a\u0323\u0302", "👨\u200d👩\u200d👧", "👍🏽", "🇩🇪", "1️⃣", "ﬁ", "Ｆｕｌｌ", "İ", "ΑΣ", "Σ",
    "ẞ", "½", "㍿", "क\u200dष", "ن\u200cم", "\u1112\u1161\u11ab", "\r\n", "\u2028", "\0", "\ud83d", "\udc4d",
    "\x85", "\x1c", "\ufeff",
]  # fmt: skip
"""What a tokenizer stumbles over: special tokens spelled out, marks and escapes, letters of several characters."""
POOLS = (
    (0x20, 0x7F), (0x20, 0x7F), (0, 0x20), (0x7F, 0x100), (0x100, 0x250), (0x300, 0x370), (0x370, 0x530),
    (0x590, 0x700), (0x900, 0x980), (0xE00, 0xE80), (0x1100, 0x1200), (0x1E00, 0x2000), (0x2000, 0x2070),
    (0x2070, 0x2700), (0x3000, 0x3100), (0x4E00, 0x4F00), (0xAC00, 0xAE00), (0xD800, 0xE000), (0xE000, 0xE010),
    (0xF900, 0xFB50), (0xFE00, 0xFE10), (0xFF00, 0x10000), (0x1D400, 0x1D500), (0x1F300, 0x1F700), (0x20000, 0x20100),
    (0xE0100, 0xE0110), (0xFFFFE, 0x100010), (0x2800, 0x110000),
)  # fmt: skip

# Opens each tokenizer and gives what it makes of the strings and of the ids.
IN_NODE = """
const { openTokenizers } = await viewer("text/tokenizers.js"), { labels } = await viewer("text/labels.js");
const bytes = (text) => Uint8Array.from(Buffer.from(text, "base64"));
const files = new Map(Object.entries(a.files).map(([name, text]) => [name, bytes(text)]));
const tokenizer = openTokenizers(a.table, files).source;
const read = a.strings.map((text) => tokenizer.encode(text));
const { size, padId, bosId, eosId, unkId } = tokenizer;
return {
  numbers: [size, padId, bosId, eosId, unkId], read, written: read.map((ids) => tokenizer.decode(ids)),
  drawn: a.ids.map((ids) => [tokenizer.decode(ids), tokenizer.tokens(ids)]),
  labels: [...read.slice(0, a.labelled), ...a.ids].map((ids) => labels(tokenizer, ids, [], ids.map((_, i) => i % 2))),
};
"""


def repository_lines() -> list[str]:
    """Returns lines of the project's own documents in English and Korean, and samples in other scripts."""
    pages = [ROOT / "README.md", ROOT / "README.ko.md", ROOT / "docs" / "concepts" / "text.md"]
    pages += sorted((ROOT / "docs" / "ko").rglob("*.md"))
    lines = [line.strip() for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line][:900] + 8 * SAMPLES


def multi30k_lines(
    data: Path, names: Sequence[str] = ("val", "test_2016_flickr"), languages: Sequence[str] = LANGUAGES
) -> list[str]:
    """Returns the lines of files of Multi30k."""
    paths = [data / "multi30k" / f"{name}.{side}.gz" for name in names for side in languages]
    if missing := [path for path in paths if not path.is_file()]:
        raise DataError(f"`{missing[0]}` does not exist", "name the folder that holds multi30k/")
    return [line for path in paths for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


def hostile_strings(count: int, lines: Sequence[str], seed: int = 1) -> list[str]:
    """Returns strings that no reader would type, the same for the same seed: of characters that this Python knows."""
    draw = Random(seed)

    def known(character: str) -> bool:
        return unicodedata.category(character) != "Cn" or ord(character) & 0xFFFE == 0xFFFE

    def character() -> str:
        while True:
            first, last = draw.choice(POOLS)
            if known(found := chr(draw.randrange(first, last))):
                return found

    def part() -> str:
        kind = draw.random()
        if kind < 0.55:
            return character()
        if kind < 0.8:
            return draw.choice(SPELLED)
        if kind < 0.85:
            return draw.choice([character(), draw.choice(SPELLED)]) * draw.randrange(2, 60)
        line = draw.choice(lines)
        start = draw.randrange(len(line))
        return line[start : start + draw.randrange(1, 12)]

    made = ("".join(part() for _ in range(draw.randrange(1, 16))) for _ in range(count))
    return ["".join(c if known(c) else "?" for c in as_in_javascript(text)) for text in made]


def as_in_javascript(text: str) -> str:
    """Returns a text in which two halves of a character that stand side by side are that character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def known_of_old(text: str) -> bool:
    """Tells whether the library `tokenizers`, whose tables of characters are of 2015, knows all that is in a text."""
    return all(
        unicodedata.ucd_3_2_0.category(c) != "Cn" or 0x1F300 <= ord(c) < 0x1F700 or ord(c) & 0xFFFE == 0xFFFE
        for c in text
    )


def sentencepiece_model(lines: Sequence[str], rules: str = "", **options: Any) -> bytes:
    """Returns a model as somebody else trains it; `rules` are lines of a table of normalisation."""
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    settings = {
        "vocab_size": 1600,
        "character_coverage": 0.98,
        "hard_vocab_limit": False,
        "minloglevel": 2,
        "num_threads": 1,
    } | options
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as table:
        if rules:
            table.write(rules)
            table.flush()
            settings["normalization_rule_tsv"] = table.name
        SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **settings)
    return model.getvalue()


def with_pieces(proto: bytes, change: Callable[[int], bytes]) -> bytes:
    """Returns a model with more fields in each piece; of a field that stands twice the last counts."""
    parts, place = [], 0
    for number, value in fields(proto):
        more = change(place) if number == 1 else b""
        place += number == 1
        parts.append(message(number, value + more if more else value))
    return b"".join(parts)


def _of_equal_scores(place: int) -> bytes:
    return b"\x15" + struct.pack("<f", -1.0) if place > 2 else b""


def _partly_unused(place: int) -> bytes:
    return message(3, 5) if place > 300 and place % 3 == 0 else b""


def _foreign(lines: Sequence[str], change: Callable[[int], bytes] | None = None, **options: Any) -> TokenizerBase:
    proto = sentencepiece_model(lines, **options)
    return SentencePieceTokenizer(proto if change is None else with_pieces(proto, change), FOREIGN_KIND)


def _numbered(lines: Sequence[str], **options: Any) -> TokenizerBase:
    """Returns a model of which every tenth piece has no id, with codes of languages."""
    proto = sentencepiece_model(lines, **options)
    pieces = [piece for i, piece in enumerate(SentencePieceTokenizer(proto, FOREIGN_KIND).pieces()) if i < 3 or i % 10]
    ids = {piece: i for i, piece in enumerate([*pieces[::-1], ">>fra<<", ">>por<<", "<pad>"])}
    special = SpecialIds(pad_id=ids["<pad>"], bos_id=ids["<pad>"], eos_id=ids["</s>"], unk_id=ids["<unk>"])
    return RemappedSentencePiece(proto, ids, special, [">>fra<<", ">>por<<"], clean_up=True, strip=True)


def _json_of(table: dict[str, Any], *special: int, clean_up: bool = False) -> TokenizerBase:
    data = json.dumps(table, ensure_ascii=False).encode()
    return HuggingFaceTokenizer(data, lambda _: SpecialIds(*special), clean_up)


def _as_json(lines: Sequence[str], kind: str, **options: Any) -> TokenizerBase:
    """Returns one of ours as it is written for others."""
    tokenizer = train_tokenizer(kind, lines, vocab_size=900, **options)
    special = tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id
    return _json_of(tokenizer_json(tokenizer), *special)


def _trained_json(lines: Sequence[str], shape: str) -> TokenizerBase:
    """Returns a tokenizer.json in the shape of a published family's."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    options: dict[str, Any] = {"vocab_size": 900, "show_progress": False}
    trainer: Any
    if shape.startswith("bert"):
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=shape == "bert")
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece(cleanup=shape == "bert")
        special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
        trainer = trainers.WordPieceTrainer(special_tokens=special, **options)
    elif shape.startswith("gpt2") or shape == "qwen2":
        tokenizer = Tokenizer(models.BPE())
        if shape == "qwen2":
            words = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
            words += r"|\s*[\r\n]+|\s+(?!\S)|\s+"
            split = pre_tokenizers.Split(Regex(words), behavior="isolated")
            as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            tokenizer.normalizer = normalizers.NFC()
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, as_bytes])
        else:
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=shape == "gpt2, spaced")
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, **options)
    elif shape == "t5":
        tokenizer = Tokenizer(models.Unigram())
        spaces = normalizers.Replace(Regex(" {2,}"), "▁")
        tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(nmt_nfkc_map()), spaces])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", **options)
    else:  # the first GPT
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Punctuation()]
        )
        tokenizer.decoder = decoders.BPEDecoder()
        trainer = trainers.BpeTrainer(special_tokens=["<unk>", "<s>"], end_of_word_suffix="</w>", **options)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_tokens(["☃", AddedToken("<sep>", lstrip=True, rstrip=True), AddedToken("don't", single_word=True)])
    table = json.loads(tokenizer.to_str())
    special_ids = {"bert": (0, 1, 2, 3), "t5": (0, 0, 1, 2), "gpt1": (1, 1, 1, 0)}.get(
        shape.split(",")[0], (0, 0, 0, 0)
    )
    return _json_of(table, *special_ids, clean_up=shape == "bert")


Maker = Callable[[Sequence[str]], TokenizerBase]
_SYMBOLS: dict[str, Any] = {"user_defined_symbols": ["<sep>", "e", "er", "don't", "▁▁", "\x1b_"], "byte_fallback": True}
_KEPT: dict[str, Any] = {"remove_extra_whitespaces": False, "normalization_rule_name": "identity"}


def _own(kind: str, **options: Any) -> Maker:
    return lambda lines: train_tokenizer(kind, lines, **{"vocab_size": 900} | options)


def _other(change: Callable[[int], bytes] | None = None, **options: Any) -> Maker:
    return lambda lines: _foreign(lines, change, **options)


KINDS: dict[str, Maker] = {
    "bpe": _own("bpe"),
    "bpe, none": _own("bpe", normalize="none"),
    "bpe, nmt_nfkc": _own("bpe", normalize="nmt_nfkc"),
    "bpe, no bytes": _own("bpe", byte_fallback=False, vocab_size=3000),
    "unigram": _own("unigram"),
    "unigram, none": _own("unigram", normalize="none"),
    "unigram, no bytes": _own("unigram", byte_fallback=False, vocab_size=3000),
    "words": _own("words"),
    "words, lowercase": _own("words", lowercase=True, normalize="none"),
    "spaces": _own("spaces", normalize="none"),
    "characters": _own("characters", byte_fallback=True),
    "characters, nmt_nfkc": _own("characters", vocab_size=400, normalize="nmt_nfkc", lowercase=True),
    "bytes": _own("bytes", normalize="none"),
    "sentencepiece bpe": _other(model_type="bpe"),
    "sentencepiece bpe, case folded": _other(model_type="bpe", normalization_rule_name="nmt_nfkc_cf"),
    "sentencepiece bpe, symbols": _other(model_type="bpe", **_SYMBOLS),
    "sentencepiece bpe, space behind": _other(model_type="bpe", treat_whitespace_as_suffix=True, unk_surface="??"),
    "sentencepiece bpe, equal scores": _other(_of_equal_scores, model_type="bpe", byte_fallback=True),
    "sentencepiece bpe, partly unused": _other(_partly_unused, model_type="bpe"),
    "sentencepiece bpe, partly unused, bytes": _other(_partly_unused, model_type="bpe", byte_fallback=True),
    "sentencepiece bpe, as Llama": _other(model_type="bpe", byte_fallback=True, split_digits=True, **_KEPT),
    "sentencepiece unigram": _other(model_type="unigram"),
    "sentencepiece unigram, nfkc": _other(model_type="unigram", normalization_rule_name="nfkc", add_dummy_prefix=False),
    "sentencepiece unigram, own rules": _other(model_type="unigram", rules="41\t61 62\n65 301\tE9\n20AC\t\n"),
    "sentencepiece unigram, symbols": _other(model_type="unigram", control_symbols=["<ctl>"], **_SYMBOLS),
    "sentencepiece unigram, across spaces": _other(
        model_type="unigram", split_by_whitespace=False, treat_whitespace_as_suffix=True, **_KEPT
    ),
    "sentencepiece unigram, equal scores": _other(_of_equal_scores, model_type="unigram"),
    "sentencepiece unigram, partly unused": _other(_partly_unused, model_type="unigram", byte_fallback=True),
    "sentencepiece word": _other(model_type="word"),
    "sentencepiece word, partly unused": _other(_partly_unused, model_type="word"),
    "sentencepiece char, partly unused": _other(_partly_unused, model_type="char"),
    "sentencepiece char": _other(model_type="char", user_defined_symbols=["<sep>", "don't"]),
    "numbered unigram": partial(_numbered, model_type="unigram"),
    "numbered bpe": partial(_numbered, model_type="bpe", byte_fallback=True),
    "tokenizer.json of bpe": partial(_as_json, kind="bpe"),
    "tokenizer.json of unigram": partial(_as_json, kind="unigram", normalize="none"),
    "tokenizer.json of words": partial(_as_json, kind="words", lowercase=True),
    "tokenizer.json of characters": partial(_as_json, kind="characters", byte_fallback=True),
    "tokenizer.json of bytes": partial(_as_json, kind="bytes"),
    **{
        f"tokenizer.json as {shape}": partial(_trained_json, shape=shape)
        for shape in ("bert", "bert, cased", "gpt2", "gpt2, spaced", "qwen2", "t5", "gpt1")
    },
}
"""What makes a tokenizer of each kind from lines."""


def drawn_ids(tokenizer: TokenizerBase, count: int, seed: int = 2) -> list[list[int]]:
    """Returns sequences of ids that no text has."""
    draw = Random(seed)
    return [[draw.randrange(tokenizer.size) for _ in range(draw.randrange(24))] for _ in range(count)]


def argument(tokenizer: TokenizerBase, strings: Sequence[str], ids: Sequence[Sequence[int]], labelled: int) -> Any:
    """Returns what IN_NODE is given: the files that a model folder holds, and what to read."""
    import base64

    with tempfile.TemporaryDirectory() as folder:
        table = TokenizerPair(tokenizer).save(Path(folder))
        held = {path.name: base64.b64encode(path.read_bytes()).decode() for path in Path(folder).iterdir()}
    held["nmt_nfkc"] = base64.b64encode(nmt_nfkc_map()).decode()
    return {"table": table, "files": held, "strings": strings, "ids": ids, "labelled": labelled}


def in_node(script: str, given: Any) -> Any:
    """Runs the body of an async function in Node, in which `a` is what is given and `viewer()` imports a module."""
    whole = (
        "import { readFileSync } from 'node:fs';"
        f"const viewer = (path) => import('{(ROOT / 'viewer').as_uri()}/' + path);"
        f"const a = JSON.parse(readFileSync(0, 'utf8')); const made = await (async () => {{ {script} }})();"
        "process.stdout.write(JSON.stringify(made));"
    )
    done = subprocess.run(
        [program("node", "nodejs"), "--input-type=module", "-e", whole],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def differences(tokenizer: TokenizerBase, strings: Sequence[str], ids: Any, found: Any) -> dict[str, list[Any]]:
    """Returns what the page reads and writes otherwise than Python: under `encode`, `decode`, `tokens` and `labels`."""
    from dataclasses import asdict

    from pellucid.tracing.tokens import make_tokens

    read = tokenizer.encode_lines(strings)
    numbers = [tokenizer.size, tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id]
    labelled = [*read[: len(found["labels"]) - len(ids)], *ids]
    labels = [
        [asdict(t) for t in make_tokens(tokenizer, each, (), [i % 2 for i in range(len(each))])] for each in labelled
    ]
    page_labels = [[{k: v for k, v in t.items() if k != "continues"} for t in each] for each in found["labels"]]

    def unlike(sides: Iterator[tuple[Any, Any, Any]]) -> list[Any]:
        return [(given, mine, page) for given, mine, page in sides if mine != page]

    texts = [(each, tokenizer.decode(each), page) for each, page in zip(read, found["written"], strict=True)]
    drawn = [(each, tokenizer.decode(each), page[0]) for each, page in zip(ids, found["drawn"], strict=True)]
    return {
        "numbers": unlike(iter([("", numbers, found["numbers"])])),
        "encode": unlike(zip(strings, read, found["read"], strict=True)),
        "decode": unlike(iter(texts + drawn)),
        "tokens": unlike(
            (each, tokenizer.tokens(each), page[1]) for each, page in zip(ids, found["drawn"], strict=True)
        ),
        "labels": unlike(zip(labelled, labels, page_labels, strict=True)),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Compares each kind and returns 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strings", type=positive, default=100_000, metavar="N", help="hostile strings a kind")
    parser.add_argument("--kinds", default="", metavar="NAMES", help="those that begin so; of all if left out")
    parser.add_argument(
        "--data-dir", type=Path, help="a folder with multi30k/val.de.gz and so on, whose lines are read, too"
    )
    parser.add_argument("--quick", action="store_true", help="200 strings a kind")
    args = parser.parse_args(argv)
    names = [name for name in KINDS if any(name.startswith(begin) for begin in args.kinds.split(","))]
    if not names:
        parser.error(f"no kind begins as in --kinds {args.kinds}; known are: {'; '.join(KINDS)}")
    if find_spec("tokenizers") is None:
        names = [name for name in names if not name.startswith("tokenizer.json")]
    lines = repository_lines()
    strings = hostile_strings(200 if args.quick else args.strings, lines)
    with refusals_in_words():
        strings = [*lines, *(multi30k_lines(args.data_dir) if args.data_dir else []), *strings]
    rows: list[dict[str, Any]] = []
    print(f"{'kind':<40}{'strings':>10}{'encode':>10}{'decode':>10}{'tokens':>8}{'labels':>8}", file=sys.stderr)
    for name in names:
        tokenizer = KINDS[name](lines)
        ids = drawn_ids(tokenizer, 1000)
        given = [text for text in strings if known_of_old(text)] if name.startswith("tokenizer.json as") else strings
        unlike = differences(tokenizer, given, ids, in_node(IN_NODE, argument(tokenizer, given, ids, 3000)))
        counts = {what: len(found) for what, found in unlike.items()}
        rows.append({"kind": name, "strings": len(given), "drawn": len(ids), "unlike": counts})
        equal = [len(given) - counts["encode"], len(given) + len(ids) - counts["decode"]]
        print(
            f"{name:<40}{len(given):>10,}{equal[0]:>10,}{equal[1]:>10,}{-counts['tokens']:>8}{-counts['labels']:>8}",
            file=sys.stderr,
        )
        for what, found in unlike.items():
            for read, mine, page in found[:3] if what != "labels" else ():
                print(
                    f"  {what} of {ascii(read)[:200]}: {ascii(mine)[:200]}, in the page {ascii(page)[:200]}",
                    file=sys.stderr,
                )
    print_json(circumstances(__file__, argv, ["sentencepiece"]) | {"kinds": rows})
    return int(any(count for row in rows for count in row["unlike"].values()))


if __name__ == "__main__":
    raise SystemExit(main())
