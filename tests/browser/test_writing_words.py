"""The arithmetic and the texts of the views in which one writes, in Node."""

import re
from typing import Any

import pytest

from tests.browser.node import VIEWER, in_node

pytestmark = pytest.mark.browser

OWN = [*sorted((VIEWER / "writing").glob("*.js")),
       *(VIEWER / "views" / f"{name}.js" for name in ("translate", "overview", "what_if", "card"))]  # fmt: skip
SAID = re.compile(r'\bt\(\s*"((?:[^"\\]|\\.)*)"')


def token(text: str, continues: bool = False, special: bool = False, adds: str | None = None) -> dict[str, Any]:
    return {"text": text, "piece": text, "id": 5, "special": special, "continues": continues, "adds": adds}


def words(*args: Any) -> Any:
    return in_node('const { words } = await viewer("writing/words.js"); return words(...a);', list(args))


def test_pieces_make_words_whose_probability_is_the_product() -> None:
    tokens = [
        token("Ein"),
        token(" jag"),
        token("t", continues=True),
        token(".", continues=False),
        token("</s>", special=True),
    ]
    found = words(tokens, [0.9, 0.5, 0.8, 1.0, 0.7])
    assert [(word["before"], word["text"]) for word in found] == [("", "Ein"), (" ", "jagt"), ("", ".")]
    assert [word["probability"] for word in found] == pytest.approx([0.9, 0.4, 1.0])
    assert [piece["place"] for piece in found[1]["pieces"]] == [1, 2]


def test_what_shares_a_character_adds_it_once() -> None:
    found = words([token("안[EC 95]", adds="안"), token("안[88]", continues=True, adds="")], [0.5, 1])
    assert [word["text"] for word in found] == ["안"]


@pytest.mark.parametrize(
    ("texts", "text", "expected"),
    [
        (["A", "</s>", "B"], "A B", "A B"),
        (["A", "</s>", "B"], None, "A B"),
        (["how", "are", "(", "you", ")", "?"], None, "how are (you)?"),
        (["2001", "-", "12"], None, "2001-12"),
        (["我", "爱", "你", "。"], None, "我爱你。"),
        ([" a", " b", "."], None, " a b."),
        (["a", "b"], "ab", "ab"),
        (["a", "x"], "a  b", "a x"),
    ],
)
def test_space_between_words_is_that_of_the_text(texts: list[str], text: str | None, expected: str) -> None:
    script = """
      const { words } = await viewer("writing/words.js");
      return words(a[0], [], [], a[1] ?? undefined).map((word) => word.before + word.text).join("");
    """
    assert in_node(script, [[token(one, special=one == "</s>") for one in texts], text]) == expected


def test_a_choice_keeps_what_stands_before_it() -> None:
    part = {"ids": [7, 8], "labels": [token("a"), token("b"), token("</s>", special=True)]}
    result = {"parts": [part, {"ids": [9, 10, 11], "labels": [token("x")] * 4}]}
    script = (
        'const { prefixes } = await viewer("writing/words.js"); return a[1].map((place) => prefixes(a[0], place, 99));'
    )
    assert in_node(script, [result, [0, 2, 3, 5]]) == [[[99]], [[7, 8, 99]], [[7, 8], [99]], [[7, 8], [9, 10, 99]]]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a b c", "a x c", ([0, 1, 0], [0, 1, 0])),
        ("a b", "a b", ([0, 0], [0, 0])),
        ("a b c d", "b d e", ([1, 0, 1, 0], [0, 0, 1])),
        ("", "a", ([], [1])),
    ],
)
def test_changed_words(before: str, after: str, expected: tuple[list[int], list[int]]) -> None:
    script = 'const { changes } = await viewer("writing/words.js"); return changes(...a);'
    found = in_node(script, [before.split(), after.split()])
    assert (found["before"], found["after"]) == tuple([bool(one) for one in side] for side in expected)


def test_probabilities_as_people_read_them() -> None:
    script = 'const { percent, shade } = await viewer("writing/words.js"); return a.map((p) => [percent(p), shade(p)]);'
    given = [0, 0.0001, 0.004, 0.25, 0.5, 0.7, 0.9, 0.996, 1]
    told = [[text.replace("\u00a0", " "), shade] for text, shade in in_node(script, given)]
    assert told == [
        ["0.0 %", 4], ["< 0.1 %", 4], ["0.4 %", 4], ["25 %", 3], ["50 %", 2], ["70 %", 1], ["90 %", 0], ["> 99 %", 0],
        ["100 %", 0],
    ]  # fmt: skip
    assert in_node(script, [0.5]) == [["50\u00a0%", 2]], "no line ends between the two"
    assert in_node("return (await viewer('writing/words.js')).shade(null);") == "unknown", "nobody was sure of it"


def test_the_tooltip_tells_the_likelier_word_and_two_figures_differ() -> None:
    script = """
      const { told } = await viewer("writing/output.js"), { percents } = await viewer("writing/words.js");
      const tokens = ["▁grass", "▁field", "▁lawn", "▁grassy"], probabilities = [0.33, 0.31, 0.15, 0.04];
      const top = { ids: [5, 7, 8, 9], tokens, probabilities };
      const piece = { text: "field", id: 7, probability: 0.31, place: 0, top };
      const word = { text: "field", probability: 0.31, pieces: [piece] };
      return [told(word)[1], percents(0.00123, 0.00119), percents(0.31, 0.33)];
    """
    told, close, apart = in_node(script)
    assert told.replace("\u00a0", " ") == "grass 33 % · lawn 15 % · grassy 4 %"
    assert [one.replace("\u00a0", " ") for one in close] == ["0.123 %", "0.119 %"]
    assert [one.replace("\u00a0", " ") for one in apart] == ["31 %", "33 %"]


def test_words_as_they_come() -> None:
    script = """
      const { add } = await viewer("writing/session.js");
      const written = [];
      let before = "";
      for (const text of a) { add(written, before, { text, probability: 0.5 }); before = text; }
      return written.map((word) => [word.before + word.text, word.probability]);
    """
    assert in_node(script, ["Two", "Two play", "Two playing", "Two playing."]) == [
        ["Two", 0.5], [" playing", 0.25], [".", 0.5],
    ]  # fmt: skip
    assert in_node(script, ["Two", "Three men"]) == [["Three", None], [" men", None]]
    assert [text for text, _ in in_node(script, ["두", "두 남", "두 남자"])] == ["두", " 남자"]
    assert [text for text, _ in in_node(script, ["两", "两个"])] == ["两", "个"]


def test_a_card_in_blocks() -> None:
    script = """
      const { parted, blocks, spans } = await viewer("writing/markdown.js");
      const { front, body } = parted(a);
      return { front, blocks: blocks(body), spans: spans("a **b** `c` *d* snake_case_name [e](f) <b>g</b>") };
    """
    card = (
        "---\nlibrary_name: pellucid\nlanguage:\n  - de\n  - en\nmodel-index:\n  - name: m\n    results:\n"
        "      - task:\n          type: x\n---\n\n# Title\n\nOne\ntwo\n\n- a\n- b\n  c\n\n| | |\n| --- | --- |\n"
        "| k | BLEU (a\\|b) |\n\n    code\n\n```py\nx = 1\n```\n1. first\n\n> said\n"
    )
    found = in_node(script, card)
    assert found["front"] == [
        ["library_name", "pellucid"], ["language", "de, en"], ["model-index · name", "m"],
        ["model-index · results · task · type", "x"],
    ]  # fmt: skip
    assert [block["kind"] for block in found["blocks"]] == [
        "heading",
        "paragraph",
        "list",
        "table",
        "code",
        "code",
        "list",
        "quote",
    ]
    table = next(block for block in found["blocks"] if block["kind"] == "table")
    assert table["rows"] == [["k", "BLEU (a|b)"]]
    assert next(block for block in found["blocks"] if block["kind"] == "list")["items"] == ["a", "b c"]
    assert [(one["kind"], one["text"]) for one in found["spans"]] == [
        ("text", "a "), ("strong", "b"), ("text", " "), ("code", "c"), ("text", " "), ("em", "d"),
        ("text", " snake_case_name e (f) <b>g</b>"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "card",
    ["[" * 50_000, "*" * 50_000, "`" * 50_001, "| " * 30_000 + "\n" + "|-" * 20_000, "- " * 40_000, "_a" * 40_000],
)
def test_a_card_cannot_make_the_page_wait(card: str) -> None:
    script = """
      const { blocks, spans, parted } = await viewer("writing/markdown.js");
      return blocks(parted(a).body).map((block) => (block.text ? spans(block.text).length : 0)).length;
    """
    assert in_node(script, card) >= 1


def test_every_text_has_its_korean() -> None:
    english = {text for path in OWN for text in SAID.findall(path.read_text(encoding="utf-8"))}
    findings = (VIEWER / "writing" / "findings.js").read_text(encoding="utf-8")
    english |= set(re.findall(r'text: "((?:[^"\\]|\\.)*)"', findings))
    korean = in_node(
        "const found = {}; for (const part of a) Object.assign(found, (await viewer(`shell/ko/${part}.js`)).ko);"
        "return found;",
        ["viewing", "overview", "translating"],
    )
    assert len(english) > 100
    assert sorted(english - set(korean)) == []
    for text in english:
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", korean[text])), text


def test_a_head_that_follows_the_words_is_told_from_one_that_rests() -> None:
    script = """
      const { looks } = await viewer("data/looks.js"), { following, ofHeads } = await viewer("writing/findings.js");
      const counts = [true, true, true], about = { attention: "cross", layer: 0 };
      const all = a.map((weights, head) => ({ ...looks(weights.flat(), 3, counts, counts), ...about, head }));
      return { best: following(all).head, finding: ofHeads(all).values };
    """
    resting = [[0.99, 0.0, 0.01]] * 3
    follows = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    even = [[1 / 3] * 3] * 3
    found = in_node(script, [resting, follows, even])
    assert found["best"] == 1
    assert found["finding"] == {"layer": 0, "head": 1, "share": "80\u00a0%"}
    kept = in_node(script.replace("ofHeads(all)", "ofHeads(all, all[0])"), [resting, follows, even])
    assert kept["finding"]["head"] == 0, "the one that held-out text has chosen, whatever this sentence says"


@pytest.mark.parametrize(
    ("weights", "aligned"),
    [
        ([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], True),
        ([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1]], False),  # the end looks at a word
        ([[0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]], False),  # words cross
    ],
)
def test_only_a_head_that_goes_along_to_the_end_is_shown_as_an_alignment(
    weights: list[list[float]], aligned: bool
) -> None:
    script = """
      const { looks } = await viewer("data/looks.js"), { ofHeads } = await viewer("writing/findings.js");
      const counts = [true, true, false];
      return ofHeads([{ ...looks(a.flat(), 3, counts, counts), attention: "cross", layer: 0, head: 0 }]).views[0];
    """
    assert in_node(script, weights) == ("alignment" if aligned else "matrix")


def test_the_overview_carries_its_own_korean_and_no_more() -> None:
    korean = in_node('return (await viewer("shell/ko/overview.js")).ko;')
    parts = [VIEWER / "writing" / f"{name}.js" for name in ("glance", "output", "bars", "opening", "findings", "words")]
    sources = [path.read_text(encoding="utf-8") for path in (VIEWER / "views" / "overview.js", *parts)]
    shell = in_node('return (await viewer("shell/ko/viewing.js")).ko;')
    said = {text for source in sources for text in SAID.findall(source)}
    assert sorted(said - set(korean) - set(shell)) == []
    assert all(any(f'"{text}"' in source for source in sources) for text in korean if text != "changed")
