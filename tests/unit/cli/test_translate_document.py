"""`pellucid translate MODEL DOCUMENT -o OUT`: the output, its report, and the refusals."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.errors import ConfigError, PellucidError
from pellucid.files.lock import lock_or_fail
from pellucid.streams.bulk_ray import Actor
from pellucid.streams.folder_translation import BulkTranslation
from pellucid.streams.translate_job import Translating
from pellucid.tasks.translator import Translator
from pellucid.text.training_text import TrainingTextStats
from tests.unit.cli.command_line import CommandLine, Outcome

PAGE = "<html lang=de><title>a b</title><p>b <b>a</b> c<br>a b\n<p>12</html>"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_a_document_becomes_a_document(pellucid: CommandLine, finished_run: Path, page: Path) -> None:
    out, report = page.with_name("out.html"), page.with_name("report.json")
    options = ("--tgt-lang", "en", "--report", report, "--json", "--device", "cpu")
    outcome = pellucid("translate", finished_run, page, "-o", out, *options)
    assert outcome.status == 0, outcome.err
    assert outcome.err.splitlines()[-1].startswith(f"{page}: 3 units, 2 translated, 1 left, ")
    written = out.read_text(encoding="utf-8")
    assert written.startswith("<html lang=en><title>")
    assert written.count("<b>") == written.count("</b>") == 1
    assert written.endswith("\n<p>12</html>")
    table = json.loads(report.read_text(encoding="utf-8"))
    assert (table["units"], table["translated"], table["left"], table["language"]) == (3, 2, 1, "en")
    units = [json.loads(line) for line in outcome.out.splitlines()]
    assert [unit["source"] for unit in units] == ["a b", "b a c a b", "12"]
    again = page.with_name("again.html")
    found = Translator.load(finished_run, "cpu").translate_document(page, again, target_language="en")
    assert again.read_bytes() == out.read_bytes()
    assert found.translated == 2


def test_a_document_without_text_is_a_warning(pellucid: CommandLine, finished_run: Path, page: Path) -> None:
    page.write_text("<p>12</p>", encoding="utf-8")
    outcome = pellucid("translate", finished_run, page, "-o", page.with_name("out.html"), "--device", "cpu")
    assert outcome.status == 0
    assert f"warning: no unit of {page} was translated" in outcome.err


@pytest.mark.parametrize(
    ("out", "more", "said"),
    [
        (None, (), "is a document, and no output is named"),
        ("page.html", (), "the input is the output"),
        ("out.docx", (), "is that of a Word document"),
        ("out.txt", (), "is that of a plain text"),
        ("none/out.html", (), "no folder `"),
        ("out.html", ("--sample",), "`--sample` is for lines"),
        ("out.html", ("--n-best", "3", "--json"), "is for lines"),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_the_model_is_loaded(
    pellucid: CommandLine, page: Path, out: str | None, more: tuple[str, ...], said: str
) -> None:
    named = () if out is None else ("-o", page.with_name(out) if "/" not in out else page.parent / out)
    outcome = pellucid("translate", page.with_name("no-model"), page, *named, *more)
    assert outcome.status == 2
    assert said in outcome.err
    assert page.read_text(encoding="utf-8") == PAGE
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]


def test_a_document_as_lines_and_one_that_is_missing_are_named(pellucid: CommandLine, page: Path) -> None:
    lines = pellucid("translate", "no-model", "--input", page, "-o", page.with_name("out.html"))
    assert (lines.status, f"error: `{page}` is a document, and `--input` reads lines" in lines.err) == (2, True)
    assert f"as in `--output {page.with_name('page.out.html')}`" in " ".join(lines.err.split())
    none = page.with_name("none.html")
    missing = pellucid("translate", "no-model", none, "-o", page.with_name("out.html"))
    assert (missing.status, f"error: no file `{none}`" in missing.err) == (2, True)
    folder = pellucid("translate", "no-model", page.parent, "-o", page.with_name("out"))
    assert (folder.status, f"`--input-dir {page.parent}` and `--output-dir" in folder.err) == (2, True)
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]


def test_a_label_of_an_unknown_language_is_a_note(pellucid: CommandLine, finished_run: Path, page: Path) -> None:
    out = page.with_name("out.html")
    outcome = pellucid("translate", finished_run, page, "-o", out, "--device", "cpu")
    assert "<html lang=und>" in out.read_text(encoding="utf-8")
    assert "the label of the document is `und`; `--tgt-lang` sets it" in outcome.err
    assert "note" not in pellucid("translate", finished_run, page, "-o", out, "--tgt-lang", "en").err


def test_a_document_is_replaced_if_that_is_asked_for(pellucid: CommandLine, finished_run: Path, page: Path) -> None:
    out = page.with_name("out.html")
    assert pellucid("translate", finished_run, page, "-o", out, "--device", "cpu").status == 0
    both = pellucid("translate", finished_run, page, "-o", out, "--in-place")
    assert (both.status, "name two outputs" in both.err) == (2, True)
    alone = pellucid("translate", finished_run, "a b", "--in-place")
    assert (alone.status, "`--in-place` has no effect without a document" in alone.err) == (2, True)
    assert page.read_text(encoding="utf-8") == PAGE
    assert pellucid("translate", finished_run, page, "--in-place", "--device", "cpu").status == 0
    assert page.read_bytes() == out.read_bytes()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with `in`: a page, a catalogue in a folder of its own, a text of lines, and a document that is none."""
    folder = tmp_path / "in"
    (folder / "po").mkdir(parents=True)
    (folder / "page.html").write_text(PAGE, encoding="utf-8")
    (folder / "po" / "x.po").write_text('msgid ""\nmsgstr ""\n"Language: \\n"\n\nmsgid "a b"\nmsgstr ""\n', "utf-8")
    (folder / "lines").write_text("a b\nb c\n", encoding="utf-8")
    (folder / "cut.docx").write_bytes(b"PK\3\4")
    return tmp_path


def translate_site(pellucid: CommandLine, run: Path, site: Path, *options: object) -> Outcome:
    folders = ("--input-dir", site / "in", "--output-dir", site / "out")
    return pellucid("translate", run, *folders, "--device", "cpu", "--threads", "1", *options)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_folder_of_documents_and_lines(pellucid: CommandLine, finished_run: Path, site: Path, workers: int) -> None:
    report = site / "report.json"
    options = ("--tgt-lang", "en", "--report", report, "--workers", workers)
    outcome = translate_site(pellucid, finished_run, site, *options)
    assert outcome.status == 1
    assert "cut.docx` is a damaged archive" in outcome.err
    assert "4 files: 3 translated (2 lines, 3 units, " in outcome.err
    names = sorted(path.relative_to(site / "out").as_posix() for path in (site / "out").rglob("*") if path.is_file())
    assert [name for name in names if not name.startswith(".pellucid")] == ["lines", "page.html", "po/x.po"]
    assert not [name for name in names if name.endswith(".partial")]
    assert '"Language: en\\n"' in (site / "out" / "po" / "x.po").read_text(encoding="utf-8")
    alone = site / "alone.html"
    assert pellucid("translate", finished_run, site / "in" / "page.html", "-o", alone, "--tgt-lang", "en").status == 0
    assert alone.read_bytes() == (site / "out" / "page.html").read_bytes()
    assert sorted(each["document"] for each in json.loads(report.read_text("utf-8"))["documents"]) == [
        "page.html",
        "po/x.po",
    ]


@pytest.mark.slow
def test_a_folder_of_documents_goes_on_by_file(pellucid: CommandLine, finished_run: Path, site: Path) -> None:
    (site / "in" / "cut.docx").unlink()
    first = translate_site(pellucid, finished_run, site, "--worker", "1/3", "--tgt-lang", "en")
    assert "1 file: 1 translated" in first.err
    before = {path: path.stat().st_mtime_ns for path in (site / "out").glob("**/*.html")}
    second = translate_site(pellucid, finished_run, site, "--tgt-lang", "en")
    assert "3 files: 2 translated (" in second.err
    assert "1 done before" in second.err
    (site / "out" / "page.html").write_text("changed", encoding="utf-8")
    (site / "in" / "po" / "x.po").write_text('msgid "b"\nmsgstr ""\n', encoding="utf-8")
    third = translate_site(pellucid, finished_run, site, "--tgt-lang", "en")
    assert "3 files: 2 translated (3 units, " in third.err
    assert before.keys() <= {*(site / "out").glob("**/*.html")}
    other = translate_site(pellucid, finished_run, site, "--tgt-lang", "fr")
    assert (other.status, "is the output of another command with other `label`" in other.err) == (2, True)


def test_an_actor_of_ray_translates_documents_and_lines_by_name(
    pellucid: CommandLine, finished_run: Path, site: Path
) -> None:
    """The actor is what Ray starts in a process; the test with a cluster is among those of other libraries."""
    bulk = BulkTranslation(
        Translating(model=str(finished_run), loading={"device": "cpu"}), site / "in", site / "by-ray", label="en"
    )
    actor = Actor(pickle.loads(pickle.dumps(bulk)), 1)
    found = {name: actor({"name": name}) for name in bulk.names()}
    states = {name: (row["state"], row["units"], row["lines"]) for name, row in found.items()}
    assert states == {
        "cut.docx": ("failed", None, 0), "lines": ("translated", None, 2), "page.html": ("translated", 2, 0),
        "po/x.po": ("translated", 1, 0),
    }  # fmt: skip
    assert "is a damaged archive" in found["cut.docx"]["error"]
    assert json.loads(found["po/x.po"]["report"])["document"] == "po/x.po"
    assert translate_site(pellucid, finished_run, site, "--tgt-lang", "en").status == 1
    for name in ("lines", "page.html", "po/x.po"):
        assert (site / "by-ray" / name).read_bytes() == (site / "out" / name).read_bytes()


@pytest.mark.slow
def test_a_document_that_another_process_translates_is_left_to_it(
    pellucid: CommandLine, finished_run: Path, site: Path
) -> None:
    lock = site / "out" / ".pellucid" / "page.html.partial"
    lock.parent.mkdir(parents=True)
    with lock_or_fail(lock, lambda: PellucidError("held")):
        outcome = translate_site(pellucid, finished_run, site)
    assert "1 held by another process" in outcome.err
    assert not (site / "out" / "page.html").exists()
    lock.touch()  # as a process leaves it that was killed
    assert "1 translated (2 units, " in translate_site(pellucid, finished_run, site).err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--sample",), "`--sample` is for lines, and `"),
        (("--json",), "`--json` is for lines, and `"),
        (("--n-best", "3", "--json"), "is for lines, and `"),
    ],
)
def test_options_of_lines_are_refused_for_a_folder_of_documents(
    pellucid: CommandLine, finished_run: Path, site: Path, options: tuple[str, ...], said: str
) -> None:
    outcome = translate_site(pellucid, finished_run, site, *options)
    assert (outcome.status, said in outcome.err) == (2, True), outcome.err
    assert not (site / "out").exists()


def test_the_label_is_the_target_of_the_pair_of_the_run(finished_run: Path, page: Path) -> None:
    translator = Translator.load(finished_run, "cpu")
    translator.text = replace(translator.text or TrainingTextStats(), pairs=("de-en",))
    found = translator.translate_document(page, page.with_name("out.html"))
    assert found.target == "en"
    assert translator.translate_document(page, page.with_name("out.html"), label="en-GB").target == "en-GB"
    with pytest.raises(ConfigError, match="the model translates into `en`, and `target_language=fr`"):
        translator.translate_document(page, page.with_name("french.html"), target_language="fr")
    assert not page.with_name("french.html").exists()
