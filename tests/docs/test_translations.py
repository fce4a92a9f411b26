"""The Korean pages say what the English ones say: the same outline, code, figures, names and links."""

import re
from collections import Counter
from pathlib import Path

import pytest

from docs import in_step
from docs.in_step import changed, fingerprints, out_of_step, pairs, sections
from tests.docs.pages import ROOT, Page, anchor

PAIRS = [(Page(english), Page(korean)) for korean, english in pairs().items()]
INDEX = Page(ROOT / "docs" / "ko" / "README.md")

FIGURE = re.compile(r"RESULT:[\w-]+|\d+(?:[.,]\d+)*")
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
NUMBER_WORDS = {
    **dict(zip(NUMBERS, map(str, range(11)), strict=True)),
    "once": "1",
    "twice": "2",
    "first": "1",
    "second": "2",
    "third": "3",
    "half": "1 2",
    "tenth": "1 10",
    "zeros": "0",
}
REMARK = re.compile(r"(?<=\S)(?:\s+#|  +).*$")
"""What stands behind `#` in code, and the annotations of a tree."""

each_pair = pytest.mark.parametrize(("english", "korean"), PAIRS, ids=[str(korean) for _, korean in PAIRS])


def different_outline(english: Page, korean: Page) -> list[str]:
    """Whether headings of other levels follow each other."""
    levels = [[heading.split()[0] for heading in page.headings] for page in (english, korean)]
    return [] if levels[0] == levels[1] else [f"headings: {english.headings} / {korean.headings}"]


def different_code(english: Page, korean: Page) -> list[str]:
    """The fences, or lines of them, that differ in more than a remark in Korean."""
    languages = ("sh", "python", "text", "toml", "")
    fences = [page.fences(*languages) for page in (english, korean)]
    if len(fences[0]) != len(fences[1]):
        return [f"{len(fences[0])} / {len(fences[1])} pieces of code"]
    lines = [[line for code in of_page for line in [*code.splitlines(), "```"]] for of_page in fences]
    if len(lines[0]) != len(lines[1]):
        return [f"{len(lines[0])} / {len(lines[1])} lines of code"]
    return [f"code: {a} / {b}" for a, b in zip(*lines, strict=True) if not is_same_line(a, b)]


def is_same_line(english: str, korean: str) -> bool:
    """Whether a line of code is the same, or only its remark is another one, and in Korean."""
    if english == korean:
        return True
    remark = REMARK.search(korean)
    return bool(remark and re.search("[가-힣]", remark[0])) and REMARK.sub("", english) == REMARK.sub("", korean)


def different_figures(english: str, korean: str) -> list[str]:
    """The figures of one text that the other lacks. What is a word in English may be a figure in Korean."""
    prose = re.compile(r"`[^`\n]+`|\]\([^)\s]+\)")
    here, there = (set(FIGURE.findall(prose.sub(" ", text))) for text in (english, korean))
    words = {figure for word in re.findall(r"[a-z]+", english.lower()) for figure in NUMBER_WORDS.get(word, "").split()}
    where = " ".join(english.split())[:60]
    return [f"figures: {sorted(one)} at '{where}'" for one in (here - there, there - here - words) if one]


def different_sections(english: Page, korean: Page) -> list[str]:
    """The sections with other figures or other names in inline code."""
    here, there = (list(sections(page.prose).values()) for page in (english, korean))
    found = []
    for a, b in zip(here, there, strict=False):
        found += different_figures(a, b)
        names = [set(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)) for text in (a, b)]
        found += [f"inline code: `{name}`" for name in sorted(names[0] ^ names[1])]
    return found


def different_rows(english: Page, korean: Page) -> list[str]:
    """The rows of tables with other figures, other names in inline code or other empty cells."""
    if len(english.table_rows) != len(korean.table_rows):
        return [f"{len(english.table_rows)} / {len(korean.table_rows)} rows of tables"]
    found = []
    for a, b in zip(english.table_rows, korean.table_rows, strict=True):
        found += different_figures(" | ".join(a), " | ".join(b))
        cells = [[(not cell, sorted(re.findall("`[^`]+`", cell))) for cell in row] for row in (a, b)]
        found += [f"row: {a} / {b}"] if cells[0] != cells[1] else []
    return found


def different_links(english: Page, korean: Page, translated: list[tuple[Page, Page]]) -> list[str]:
    """The links that lead elsewhere than the English ones: to the Korean page where there is one."""
    counterparts = {page.path: other for page, other in translated}
    expected = Counter(_translated(_place(english, link), counterparts) for link in english.links)
    there = Counter(_place(korean, link) for link in korean.links)
    for links in (expected, there):  # from one language to the other
        for page in (english, korean):
            del links[str(page.path), ""]
    return [f"link: {' # '.join(place)}" for place in sorted((expected - there) + (there - expected))]


def _place(page: Page, link: str) -> tuple[str, str]:
    name, _, heading = link.partition("#")
    if "://" in name:
        return link, ""
    return str((page.path.parent / name).resolve() if name else page.path), heading


def _translated(place: tuple[str, str], counterparts: dict[Path, Page]) -> tuple[str, str]:
    path, name = Path(place[0]), place[1]
    if path not in counterparts:
        return place
    english, korean = ([anchor(heading) for heading in page.headings] for page in (Page(path), counterparts[path]))
    return str(counterparts[path].path), korean[english.index(name)] if name else ""


def differences(english: Page, korean: Page, translated: list[tuple[Page, Page]]) -> list[str]:
    """All in which a translated page is not in step with its English one."""
    return [
        *different_outline(english, korean),
        *different_code(english, korean),
        *different_sections(english, korean),
        *different_rows(english, korean),
        *different_links(english, korean, translated),
    ]


@each_pair
def test_a_korean_page_has_the_outline_code_figures_and_links_of_the_english_one(english: Page, korean: Page) -> None:
    found = differences(english, korean, PAIRS)
    assert not found, "\n".join([f"{english} / {korean}", *found])


@each_pair
def test_the_english_is_the_one_that_the_korean_was_read_against(english: Page, korean: Page) -> None:
    messages = out_of_step(korean.path, english.path)
    assert not messages, "\n".join(messages)


@each_pair
def test_a_korean_page_leads_to_the_english_one(english: Page, korean: Page) -> None:
    assert (str(english.path), "") in [_place(korean, link) for link in korean.links]


@pytest.mark.parametrize("index", ["README.md", "docs/README.md"])
def test_the_english_index_leads_to_the_korean_one(index: str) -> None:
    english, korean = next(pair for pair in PAIRS if str(pair[0]) == index)
    assert (str(korean.path), "") in [_place(english, link) for link in english.links]


def test_the_korean_index_says_what_is_in_english() -> None:
    links = re.findall(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)( \(영어\))?", INDEX.prose)
    assert len(links) > 10
    korean = {str(page.path) for _, page in PAIRS}
    for link, in_english in links:
        path, _ = _place(INDEX, link)
        if path != str(ROOT / "docs" / "README.md"):
            assert bool(in_english) != (path in korean), link


ENGLISH_PAGE = """\
# A page

See [below](#three-steps), [that](other.md) and [results](results/).

## Three steps

About 1,000 pairs in `data.src`, and five more.

```sh
pellucid demo  # it takes a while
```

| setting | value |
| --- | --- |
| `train.steps` | 300, in an hour | |
"""
KOREAN_PAGE = """\
# 문서

English: [A page](page.md). [아래](#세-단계)와 [그것](other.md), [결과](results/)를 보세요.

## 세 단계

`data.src`의 1,000쌍쯤과 5쌍 더.

```sh
pellucid demo  # 시간이 좀 걸린다
```

| 설정 | 값 |
| --- | --- |
| `train.steps` | 한 시간에 300 | |
"""


def made_up(folder: Path, korean: str) -> list[str]:
    """The differences between the page above and one in Korean."""
    pair = Page(folder / "page.md"), Page(folder / "page.ko.md")
    for page, text in zip(pair, (ENGLISH_PAGE, korean), strict=True):
        page.path.write_text(text, encoding="utf-8")
    return differences(*pair, [pair])


def test_a_page_in_step_has_no_differences(tmp_path: Path) -> None:
    assert made_up(tmp_path, KOREAN_PAGE) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("## 세", "### 세", "headings: "),
        ("demo  #", "demo --out x  #", "code: pellucid demo"),
        ("# 시간이 좀 걸린다", "# it takes long", "code: pellucid demo"),
        ("pellucid demo", "ls\npellucid demo", "2 / 3 lines of code"),
        ("```sh", "```sh\n```\n\n```sh", "1 / 2 pieces of code"),
        ("1,000쌍", "2,000쌍", "figures: ['1,000'] at '## Three steps"),
        ("5쌍", "7쌍", "figures: ['7'] at '## Three steps"),
        ("`data.src`", "`data.tgt`", "inline code: `data.src`"),
        ("시간에 300", "시간에 400", "figures: ['300'] at '`train.steps`"),
        ("| 한 시간에 300 | |", "| | 한 시간에 300 |", "row: "),
        ("| 설정", "| |\n| 설정", "3 / 4 rows of tables"),
        ("#세-단계", "#세-계단", "세-계단"),
        ("(other.md)", "(page.ko.md)", "other.md"),
        ("(results/)", "(result/)", "result"),
    ],
)
def test_a_difference_is_found(tmp_path: Path, old: str, new: str, found: str) -> None:
    assert old in KOREAN_PAGE
    messages = made_up(tmp_path, KOREAN_PAGE.replace(old, new, 1))
    assert any(found in message for message in messages), messages


def test_a_changed_section_is_found_and_a_new_line_break_is_not() -> None:
    read = fingerprints(ENGLISH_PAGE)
    assert list(read) == ["# A page", "## Three steps"]
    assert changed(read, fingerprints(ENGLISH_PAGE.replace("and five", "and\nfive"))) == []
    assert changed(read, fingerprints(ENGLISH_PAGE.replace("takes a while", "is quick"))) == ["## Three steps"]
    assert changed(read, fingerprints(ENGLISH_PAGE + "## More\n")) == ["## More"]
    assert changed(read, {}) == ["# A page", "## Three steps"]


def test_a_page_is_out_of_step_until_it_is_taken_as_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    english, korean = tmp_path / "README.md", tmp_path / "README.ko.md"
    english.write_text(ENGLISH_PAGE, encoding="utf-8")
    korean.write_text(KOREAN_PAGE, encoding="utf-8")
    monkeypatch.setattr(in_step, "ROOT", tmp_path)
    monkeypatch.setattr(in_step, "FINGERPRINTS", tmp_path / "in-step.json")
    assert in_step.main([str(korean)]) == 0
    assert in_step.main([]) == 0
    assert "in step" in capsys.readouterr().out
    english.write_text(ENGLISH_PAGE.replace("and five more", "and six more"), encoding="utf-8")
    assert in_step.main([]) == 1
    assert capsys.readouterr().out == (
        "README.md: `## Three steps` has changed. "
        "Bring README.ko.md in step, then run: python docs/in_step.py README.ko.md\n"
    )
    assert in_step.main([str(english)]) == 2
    assert "no Korean page" in capsys.readouterr().err
