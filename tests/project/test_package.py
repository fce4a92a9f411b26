"""The package: its version has an entry in the changelog, and what is built holds each of its files."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import venv
import zipfile
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_changelog_has_the_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"\n## [{project['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_what_continuous_integration_installs_is_named_with_its_sums() -> None:
    """Each requirement of the package, of its tests and of what checks its types, but PyTorch, whose builds differ."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = table["dependency-groups"]
    asked = [*table["project"]["dependencies"], *groups["dev"], *groups["types"]]
    names = {re.split(r"[^\w.-]", requirement)[0] for requirement in asked} - {"torch", "pellucid"}
    lock = (ROOT / "requirements" / "ci.txt").read_text(encoding="utf-8")
    entries = re.findall(r"^([\w.-]+)==[^\n]*\\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n?)+)", lock, re.MULTILINE)
    assert names <= {name for name, _ in entries}, "add it to requirements/ci.in; ci.txt says how it is written"
    assert len(entries) == len(re.findall(r"^[\w.-]+==", lock, re.MULTILINE)), "each with its sums"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built from a copy, since building leaves files behind."""
    tmp_path = tmp_path_factory.mktemp("wheel")
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    shutil.copytree(ROOT / "packaging", source / "packaging")
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    # torch requires setuptools, so the build needs no download.
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(source)], check=True, stdin=subprocess.DEVNULL)
    return next(tmp_path.glob("*.whl"))


@pytest.mark.slow
def test_the_wheel_holds_each_file_of_the_package(wheel: Path) -> None:
    package = ROOT / "src" / "pellucid"
    written = {
        f"pellucid/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = zipfile.ZipFile(wheel).namelist()
    built = {name for name in names if name.startswith("pellucid/")}
    assert built == written
    assert {name.partition(".data/data/")[2] for name in names if ".data/" in name} == {
        "share/man/man1/pellucid.1", "share/bash-completion/completions/pellucid",
        "share/zsh/site-functions/_pellucid", "share/fish/vendor_completions.d/pellucid.fish",
    }  # fmt: skip
    assert {"LICENSE", "NOTICE"} <= {name.rpartition("/licenses/")[2] for name in names}
    assert wheel.stat().st_size < 5_000_000
    assert "pellucid/py.typed" in built


@pytest.mark.slow
def test_tests_and_viewer_can_be_built_from_a_source_distribution(tmp_path: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in listed:
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "source" / name)
    build = "from setuptools import build_meta; print(build_meta.build_sdist('..'))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=tmp_path / "source", capture_output=True, text=True, check=True
    )
    with tarfile.open(tmp_path / done.stdout.split()[-1]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert "packaging/pellucid.1" in held
    needless = {".gitignore", *(name for name in listed if name.startswith(".github/"))}
    assert {*listed} - held <= needless


def link_requirements(extras: Sequence[str], folder: Path) -> None:
    """Links the installed files of what the package requires into a folder, and of nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    seen: set[str] = set()
    while wanted:
        name = re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", wanted.pop())[0]).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except ModuleNotFoundError:  # of another system
            continue
        wanted += [each for each in found.requires or [] if "extra ==" not in each]
        for top in {path.parts[0] for path in found.files or [] if path.parts[0] not in ("..", "__pycache__")}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(found.locate_file(top))).resolve())


def installed(wheel: Path, place: Path, extras: Sequence[str] = ()) -> Path:
    """An environment with the wheel, its requirements linked from this one; the folder of its programs."""
    venv.EnvBuilder(with_pip=False).create(place)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True, stdin=subprocess.DEVNULL, env=clean_environment())
    link_requirements(extras, next((place / "lib").glob("python3*")) / "site-packages")
    return python.parent


def run(programs: Path, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    command = [str(programs / "pellucid"), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=clean_environment(), timeout=300)


def clean_environment() -> dict[str, str]:
    """The environment without paths of Python, by which the repository would be found."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def test_the_wheel_works_in_a_clean_environment_without_extras(wheel: Path, tmp_path: Path) -> None:
    programs = installed(wheel, tmp_path / "env")
    assert (programs.parent / "share" / "man" / "man1" / "pellucid.1").is_file()
    assert (programs.parent / "share" / "bash-completion" / "completions" / "pellucid").is_file()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert run(programs, "--version", cwd=tmp_path).stdout.split()[-1] == version
    shown = run(programs, "demo", "--trained", "--out", "demo", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "demo" / "look.html").stat().st_size > 100_000
    translated = run(programs, "translate", "demo/run", "3 May 2021", cwd=tmp_path)
    assert translated.stdout == "2021-05-03\n", translated.stderr
    paged = run(programs, "convert", "demo/run", "page.html", "--to", "page", cwd=tmp_path)
    assert paged.returncode == 0, paged.stderr
    refused = run(programs, "serve", "en-de=demo/run", cwd=tmp_path)
    assert refused.returncode == 2
    assert "which is not installed" in refused.stderr


def test_the_wheel_serves_with_its_extra(wheel: Path, tmp_path: Path) -> None:
    programs = installed(wheel, tmp_path / "env", ["serve"])
    shown = run(programs, "demo", "--trained", "--out", "demo", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    command = [str(programs / "pellucid"), "serve", "en-de=demo/run", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=clean_environment()) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            body = json.dumps({"q": "3 May 2021", "source": "en", "target": "de"}).encode()
            request = urllib.request.Request(f"{url}/translate", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert json.load(answer) == {"translatedText": "2021-05-03"}
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert b"data-model.server" in answer.read()
            process.terminate()
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def test_the_citation_has_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_pages_of_llms_txt_exist() -> None:
    linked = re.findall(r"\]\(([^)]+)\)", (ROOT / "llms.txt").read_text(encoding="utf-8"))
    assert len(linked) > 5
    assert [name for name in linked if not (ROOT / name).is_file()] == []


def test_man_page_and_completions_are_those_of_the_parser() -> None:
    code = (
        "import runpy, sys, json; found = runpy.run_path('packaging/shell_files.py');"
        "print(json.dumps({name: make() for name, make in found['FILES'].items()}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    for name, text in json.loads(done.stdout).items():
        assert (ROOT / "packaging" / name).read_text(encoding="utf-8") == text, "run packaging/shell_files.py"
