"""The package: its version has an entry in the changelog, and what is built holds each of its files."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
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


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel, built from a copy, since building leaves files behind."""
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
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
    built = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert built == written
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
    needless = {".gitignore", *(name for name in listed if name.startswith(".github/"))}
    assert {*listed} - held <= needless
