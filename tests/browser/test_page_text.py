"""The page's tokenizers against Python's: what they read and write, how tokens are labelled, where a line is parted."""

import base64
import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pellucid.data.dates import split_dates
from pellucid.tasks import segmentation as python_segments
from pellucid.text import sentence_words
from pellucid.text.sentences import detect_main_script, space_between, split_sentences, writes_spaces
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.text.training_text import TrainingTextStats
from tests.browser.node import in_node
from tests.unit.text.test_sentences import OTHERWISE, PARTED

pytestmark = pytest.mark.browser

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def page_tokens(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark that compares many more strings; here are a few of each kind."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("page_tokens")


def kinds() -> list[str]:
    """Those that need nobody else's library; the others are compared in tests/parity/foreign_tokenizers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        return [kind for kind in import_module("page_tokens").KINDS if not kind.startswith("tokenizer.json")]


@pytest.mark.parametrize("kind", kinds())
def test_each_kind_reads_and_writes_as_in_python(kind: str, page_tokens: ModuleType) -> None:
    lines = page_tokens.repository_lines()
    tokenizer = page_tokens.KINDS[kind](lines)
    dates = [text for pair in split_dates(60, 7, 6)[0] for text in pair]
    strings = [
        *lines[::4],
        *page_tokens.SAMPLES,
        *page_tokens.SPELLED,
        *dates,
        *page_tokens.hostile_strings(800, lines, 3),
    ]
    strings += ["", " ", "a" * 3000, "한" * 700, "▁" * 500, "\u0301" * 300, " " * 400 + "x", "😀" * 200]
    strings = [page_tokens.as_in_javascript(text) for text in strings]
    ids = page_tokens.drawn_ids(tokenizer, 200)
    found = in_node(page_tokens.IN_NODE, page_tokens.argument(tokenizer, strings, ids, 400))
    unlike = page_tokens.differences(tokenizer, strings, ids, found)
    assert {what: cases[:2] for what, cases in unlike.items() if cases} == {}


@cache
def _opened(kind: str) -> tuple[TokenizerBase, dict[str, Any]]:
    """A small tokenizer and what the page opens it from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        page_tokens = import_module("page_tokens")
        tokenizer = page_tokens.KINDS[kind](page_tokens.repository_lines())
        return tokenizer, page_tokens.argument(tokenizer, [], [], 0)


OPEN = """
const { openTokenizers } = await viewer("text/tokenizers.js");
const bytes = (text) => Uint8Array.from(Buffer.from(text, "base64"));
const held = (files) => new Map(Object.entries(files).map(([name, text]) => [name, bytes(text)]));
const open = (table, files) => openTokenizers(table, held(files));
"""
MESSAGES = """
return a.map(({ table, files }) => {
  try {
    const { source } = open(table, files);
    source.decode(source.encode("A b,\\tc. 안녕 e\\u0301 😀"));
    return "";
  } catch (error) {
    return error instanceof RangeError || error instanceof TypeError ? `${error.stack}` : error.message;
  }
});
"""


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters", "numbered bpe"])
def test_damaged_bytes_are_told_in_a_sentence(kind: str) -> None:
    """Or they are read, where the damage is in what nobody needs: never a hang, nor an error of the language's own."""
    _, whole = _opened(kind)
    draw, cases = random.Random(5), []
    for name, text in whole["files"].items():
        if name == "nmt_nfkc":
            continue
        data = base64.b64decode(text)
        spoilt = [data[: draw.randrange(len(data))] for _ in range(20)] + [
            b"",
            b"\0",
            b"{}",
            b"null",
            b"[1]",
            data + data,
        ]
        for _ in range(60):
            changed = bytearray(data)
            for _ in range(draw.choice([1, 8, 100])):
                changed[draw.randrange(len(data))] = draw.randrange(256)
            spoilt.append(bytes(changed))
        cases += [whole | {"files": whole["files"] | {name: base64.b64encode(each).decode()}} for each in spoilt]
    messages = in_node(OPEN + MESSAGES, cases)
    assert sum(map(bool, messages)) > len(cases) // 4
    assert [message for message in messages if "    at " in message] == []
    assert all(message[:1].islower() and len(message) < 600 for message in messages if message)


def test_what_the_page_cannot_run_is_refused(page_tokens: ModuleType) -> None:
    options = {"tokenizer": dict.fromkeys(("pad_id", "bos_id", "eos_id", "unk_id"), 0)}
    table = {"kind": "tokenizer.json", "joint": True, "files": {"tokenizer": "t.json"}, "options": options}

    def file(**parts: Any) -> dict[str, str]:
        model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
        return {"t.json": base64.b64encode(json.dumps({"model": model} | parts).encode()).decode()}

    def refused(part: str, kind: str) -> str:
        return f"the tokenizer asks for the {part} `{kind}`, which this page does not run"

    split = {"type": "Split", "pattern": {"Regex": "(?<n"}, "behavior": "Isolated"}
    cases = {
        refused("normalizer", "Nmt"): (table, file(normalizer={"type": "Nmt"})),
        refused("pre-tokenizer", "UnicodeScripts"): (table, file(pre_tokenizer={"type": "UnicodeScripts"})),
        refused("decoder", "CTC"): (table, file(decoder={"type": "CTC"})),
        refused("model", "Other"): (table, file(model={"type": "Other"})),
        "the tokenizer cuts by the regular expression `(?<n`, which this page does not run": (
            table,
            file(pre_tokenizer=split),
        ),
        "the page lacks the file `t.json` of the model's tokenizer": (table, {}),
        "the model reads text by a tokenizer of its author's own, which no page can hold": (
            {"kind": "own", "joint": True},
            {},
        ),
        "the tokenizer's kind `new` is not one that this page runs": ({"kind": "new", "joint": True}, {}),
        "the options of the tokenizer do not name its special ids": (table | {"options": {}}, file()),
    }
    assert in_node(OPEN + MESSAGES, [{"table": t, "files": files} for t, files in cases.values()]) == list(cases)


def test_a_vocabulary_with_rules_that_the_page_does_not_hold() -> None:
    _, whole = _opened("characters, nmt_nfkc")
    files = {name: text for name, text in whole["files"].items() if name != "nmt_nfkc"}
    assert in_node(OPEN + MESSAGES, [whole | {"files": files}]) == [
        "the tokenizer spells a text by the rules `nmt_nfkc`, which this page does not hold"
    ]


def test_two_sides_have_tokenizers_of_their_own() -> None:
    (source, first), (target, second) = _opened("words"), _opened("bpe")
    table = {
        "kind": source.kind, "joint": False, "target_kind": target.kind,
        "files": {"source": "source.json", "target": "target.model"},
    }  # fmt: skip
    files = {"source.json": first["files"]["vocabulary.json"], "target.model": second["files"]["tokenizer.model"]}
    script = "const sides = open(a.table, a.files); return [sides.source, sides.target].map((t) => [t.kind, t.size]);"
    sides = in_node(OPEN + script, {"table": table, "files": files})
    assert sides == [[source.kind, source.size], [target.kind, target.size]]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters"])
def test_work_grows_with_the_text_alone(kind: str) -> None:
    """Not timed: work that grew with the square of a text's length would go beyond the limit of the test's Node."""
    tokenizer, whole = _opened(kind)
    texts = ["a" * 100_000, "ab c " * 20_000, " " * 100_000, "한" * 50_000, "e\u0301" * 40_000]
    found = in_node(
        OPEN + "const t = open(a.table, a.files).source; return a.texts.map((x) => t.encode(x));",
        whole | {"texts": texts},
    )
    assert found == tokenizer.encode_lines(texts)


def test_sentences_are_parted_as_in_python() -> None:
    cases = ["".join(parts) for parts in PARTED]
    cases += [change(line) for change in OTHERWISE.values() for line in cases[: len(PARTED)]]
    cases += ["", " ", ".", "3. 4. 2021", "\u200b", "?!", "2021년 5월 3일", "3 April 2021", "May 3, 2021", "e.g. a"]
    script = 'const { sentences } = await viewer("text/sentences.js"); return a.map((line) => sentences(line));'
    assert in_node(script, cases) == [split_sentences(line) for line in cases]


def test_the_words_of_sentences_are_those_of_python() -> None:
    script = 'return Object.entries(await viewer("text/sentence_words.js")).map(([name, words]) => [name, [...words]]);'
    found = dict(in_node(script, None))
    assert {name: frozenset(words) for name, words in found.items()} == {
        name: getattr(sentence_words, name) for name in vars(sentence_words) if name.isupper()
    }


def test_the_sentences_are_the_line(page_tokens: ModuleType) -> None:
    lines = page_tokens.hostile_strings(3000, page_tokens.repository_lines(), 11)
    script = 'const { sentences } = await viewer("text/sentences.js"); return a.map(([x, l]) => sentences(x, l));'
    found = in_node(script, [[line, ("", "de", "ko_KR", "deu_Latn", "xx")[i % 5]] for i, line in enumerate(lines)])
    assert ["".join(parts) for parts in found] == lines
    assert all(len(parts) == 1 or all(any(map(str.isalpha, part)) for part in parts) for parts in found)


def test_scripts_and_the_spaces_that_they_write(page_tokens: ModuleType) -> None:
    lines = [
        *page_tokens.repository_lines()[::9],
        *page_tokens.SAMPLES,
        "สวัสดีครับ",
        "",
        "123 !",
        "彼はJohn Smithと言った。",
        "ᚠᚢᚦ",
    ]
    script = """
        const { scriptOf, spaceBetween, writesSpaces } = await viewer("text/sentences.js");
        return a.map((line, i) => [scriptOf(line), writesSpaces(line), spaceBetween(a[i - 1] ?? "", line)]);"""
    pairs = zip(["", *lines[:-1]], lines, strict=True)
    assert in_node(script, lines) == [[detect_main_script(b), writes_spaces(b), space_between(a, b)] for a, b in pairs]


TRAINED_ON = TrainingTextStats(
    source_length=12, source_longest=20, target_length=12, target_longest=20, source_script="Latin",
    target_script="Latin", sentence_ends=0.98, several_sentences=0.01,
)  # fmt: skip


@pytest.mark.parametrize("kind", ["bpe", "words", "characters"])
@pytest.mark.parametrize("text", [TRAINED_ON, replace(TRAINED_ON, several_sentences=0.5), None])
def test_segments_are_cut_and_joined_as_in_python(kind: str, text: TrainingTextStats | None) -> None:
    tokenizer, whole = _opened(kind)
    lines = ["".join(parts) for parts in PARTED] + [
        "",
        "   ",
        ">>fra<< Ein Satz. Noch einer!",
        "Wort " * 40 + ". Ende.  Aus.\tJa.",
    ]
    lines += ["x" * 90, "한" * 50, "A b.\n\nC d. E f.\u2003\u2003G h!", "\n A.  \n\n\n\tB. C.\r\nD \n"]
    table = None if text is None else {name: getattr(text, name) for name in text.__dataclass_fields__}
    script = (
        OPEN
        + """
        const { joined, segmentsOf } = await viewer("text/segments.js");
        const t = open(a.table, a.files).source;
        return a.lines.map((line) => {
          const segments = segmentsOf(line, t, 16, a.text, "", true);
          return [segments, joined(segments.map(({ source }, i) => ` ${source}${i} `), segments)];
        });"""
    )
    found = in_node(script, whole | {"lines": lines, "text": table})
    for line, (page, joined) in zip(lines, found, strict=True):
        (mine,) = python_segments.split_segments([line], tokenizer, 16, text, led_by_codes=True)
        expected = [{"source": s.source, "pieces": s.pieces, "behind": s.space, "before": s.before} for s in mine]
        assert page == expected, line
        assert joined == python_segments.join_segments([f" {s.source}{i} " for i, s in enumerate(mine)], mine), line


def test_ways_are_ranked_together_as_in_python() -> None:
    draw = random.Random(2)
    ranks = [
        [sorted((draw.choice([-1.0, -2.0, -3.5]) for _ in range(4)), reverse=True) for _ in range(n)] for n in range(6)
    ]
    script = """
        const { rankedTogether } = await viewer("text/segments.js");
        return a.map((ranks) => rankedTogether(ranks, 5));"""
    assert in_node(script, ranks) == [python_segments.combine_n_best(each, 5) for each in ranks]


def test_the_texts_of_labels_make_up_the_text() -> None:
    tokenizer: Callable[..., TokenizerBase] = train_tokenizer
    letters = tokenizer("characters", ["a"], byte_fallback=True)
    script = """
        const { openTokenizers } = await viewer("text/tokenizers.js"), { labels } = await viewer("text/labels.js");
        const file = Buffer.from(JSON.stringify(a), "utf8");
        const table = { kind: "characters", joint: true, files: { tokenizer: "v" } };
        const { source } = openTokenizers(table, new Map([["v", file]]));
        return labels(source, [...source.encode("a 안é"), source.eosId])
          .map(({ text, adds, word, special, continues }) => [text, adds ?? text, word, special, continues]);"""
    table = {"format": "pellucid-vocabulary/1", "kind": "characters", "byte_fallback": True}
    found = in_node(script, table | {"tokens": letters.listing})  # type: ignore[attr-defined]
    assert "".join(adds for _, adds, *_ in found[:-1]) == "a 안é"
    assert found[2][:2] == ["안[EC]", "안"]
    assert found[0][2:] == [0, False, False]
    assert found[3] == ["안[95]", "", 1, False, True]
    assert found[-1] == ["</s>", "</s>", None, True, False]
