"""The course: each lesson runs in both languages and prints what it says, and has the parts that a lesson has."""

import re
import shutil
from pathlib import Path

import pytest

from docs.lessons import frame_live_figures, group_lessons, read_addresses, read_fences, run_lesson
from pellucid.demo import run_demo
from tests.docs.pages import LESSONS, ROOT, Page
from tests.processes import python

ENGLISH = [page for page in LESSONS if page.path.parents[1].name == "docs"]

each_lesson = pytest.mark.parametrize("page", LESSONS, ids=str)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the demo's model and texts, to be copied."""
    folder = tmp_path_factory.mktemp("course")
    run_demo(folder / "pellucid-demo", "cpu", trained=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("pages", group_lessons(), ids=lambda pages: "+".join(str(Page(path)) for path in pages))
def test_lessons_print_what_they_say(
    pages: list[Path], start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", python())
    run_lesson(pages[0], Path(shutil.copytree(start, tmp_path / "lesson")))


def test_each_lesson_runs_in_one_group() -> None:
    grouped = [page for pages in group_lessons() for page in pages]
    assert sorted(grouped) == sorted(page.path for page in LESSONS)
    for pages in group_lessons():
        fences = [list(read_fences(page.read_text(encoding="utf-8"))) for page in pages]
        assert all(each == fences[0] for each in fences)


def test_there_are_thirteen_lessons_in_each_language() -> None:
    numbers = [page.path.name[:2] for page in ENGLISH]
    assert numbers == [f"{number:02}" for number in range(13)]
    assert [page.path.name for page in LESSONS] == 2 * [page.path.name for page in ENGLISH]


@each_lesson
def test_a_lesson_has_its_parts(page: Page) -> None:
    levels = [heading.split()[0] for heading in page.headings]
    assert levels.count("#") == 1
    assert page.headings[0].startswith(f"# {int(page.path.name[:2])}. ")
    assert re.search(r"^\*.*\d.*(minutes|분)", page.text, re.MULTILINE), "time and needs"
    assert page.text.count("```math") >= 1
    assert [link for link in page.links if link.endswith(".svg")] == [picture_of(page)]
    last, exercise = page.headings[-1], page.headings[-2]
    assert last in ("## What you can do now", "## 이제 할 수 있는 것")
    assert exercise in ("## Exercise", "## 연습 문제")


def picture_of(page: Page) -> str:
    """The link from a lesson to its picture, which both languages share."""
    name = f"{page.path.stem}.svg"
    return name if page in ENGLISH else f"../../course/{name}"


@pytest.mark.parametrize("page", ENGLISH, ids=str)
def test_each_lesson_leads_to_the_next(page: Page) -> None:
    place = ENGLISH.index(page)
    following = ENGLISH[place + 1].path.name if place + 1 < len(ENGLISH) else "../README.md"
    assert following in page.links[-1]


def test_each_picture_is_drawn_by_its_lesson() -> None:
    pictures = {path.stem for path in (ROOT / "docs" / "course").glob("*.svg")}
    assert pictures == {page.path.stem for page in ENGLISH}
    for page in ENGLISH:
        assert re.search(r"^pellucid (inspect|plot) .* -o course\.svg$", page.text, re.MULTILINE), page


@each_lesson
def test_live_figures_are_the_same_in_both_languages(page: Page) -> None:
    english = next(each for each in ENGLISH if each.path.name == page.path.name)
    addresses = read_addresses(page.text)
    assert addresses == read_addresses(english.text)
    assert len(addresses) == page.text.count("look.html#")
    views = {path.stem for path in (ROOT / "viewer" / "views").glob("*.js")}
    assert {address["view"] for address in addresses} <= views
    assert all(address["text"] for address in addresses)


def test_most_lessons_have_a_live_figure() -> None:
    assert sum(bool(read_addresses(page.text)) for page in ENGLISH) >= 9


def test_a_live_figure_is_a_frame_on_the_site() -> None:
    line = "[Live](00-your-post.md): `pellucid-demo/look.html#view=beam&text=3월 7일`. The tree."
    shown = frame_live_figures(f"before\n\n{line}\n\nafter `pellucid-demo/look.html`\n", "../../", "ko")
    assert shown == (
        "before\n\n[Live](00-your-post.md): The tree.\n\n"
        '<iframe class="live" src="../../_static/live.html#view=beam&amp;text=3%EC%9B%94+7%EC%9D%BC&amp;language=ko" '
        'title="The tree." loading="lazy"></iframe>\n\nafter `pellucid-demo/look.html`\n'
    )


LESSON = """\
```python
a = 1
print(a + 1)
```

```text
2
```

<!-- long -->
```python
a = 5
```

```python
print(a)
```

Some words.

```text
1
```

<!-- elsewhere -->
```sh
exit 3
```

```sh
echo "$((2 + 3))"
```

```text
5
```

<!-- yours -->
```sh
head -c 10 mine.py | tr -d '"'
```

```text
Answers
```
"""


def test_fences_run_in_order_and_are_compared(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(LESSON, encoding="utf-8")
    fences = list(read_fences(LESSON))
    assert [fence.mark for fence in fences] == ["", "long", "", "elsewhere", "", "yours"]
    assert [fence.output for fence in fences] == ["2\n", None, None, None, "5\n", "Answers\n"]
    run_lesson(page, tmp_path)
    run_lesson(page, tmp_path, long=True)
    for wrong in (LESSON.replace("2\n```", "3\n```"), LESSON.replace("5\n```\n", "6\n```\n")):
        page.write_text(wrong.replace("a = 6", "a = 5"), encoding="utf-8")
        with pytest.raises(AssertionError, match="printed"):
            run_lesson(page, tmp_path)
    page.write_text("```sh\nfalse\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="false"):
        run_lesson(page, tmp_path)
