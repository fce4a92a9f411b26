"""The repository speaks of the project alone, and each of its modules says what it is for."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

# One letter of each stands in brackets, so that this file is not its own first finding.
MACHINE_PATHS = r"(?<![\w.-])/(?:wor[k]|far[m]|roo[t]|hom[e]/\w+|User[s]/\w+|opt/(?:wheel[s]|pyp[i]))\b"
REGISTRIES = r"pyp[i]\.org|pythonhoste[d]\.org|npmj[s]\.(?:com|org)|deb\.debia[n]\.org|conda\.anacond[a]\.org"
FORBIDDEN = re.compile(rf"{MACHINE_PATHS}|\.librar[y]\b|{REGISTRIES}")
# Lock files say where each package came from.
LOCK_FILES = {"package-lock.json"}


def files_of_the_repository() -> list[Path]:
    """Tracked files, and those that would be with the next `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


FILES = files_of_the_repository()
MODULES = [path for path in FILES if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ("src", "benchmarks")]


def test_the_repository_is_listed() -> None:
    assert {ROOT / "pyproject.toml", ROOT / "src" / "pellucid" / "errors.py"} <= set(FILES)


def test_no_file_names_a_machine_path_or_a_registry() -> None:
    found = []
    for path in FILES:
        if path.name in LOCK_FILES or path.suffix == ".lock":
            continue
        for number, line in enumerate(path.read_bytes().decode("utf-8", errors="replace").splitlines(), start=1):
            if match := FORBIDDEN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: `{match.group()}`")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "parts",
    [
        ("cd ", "/", "work/main"),
        ("open('", "/", "home/someone/x')"),
        ("--index-url https://", "pypi", ".org/simple"),
        (".", "library/search"),
    ],
)
def test_a_forbidden_name_is_found(parts: tuple[str, ...]) -> None:
    assert FORBIDDEN.search("".join(parts))


@pytest.mark.parametrize("line", ["src/work/x.py", "https://host.example/home/page", "a library", "./home.html"])
def test_an_innocent_line_is_not(line: str) -> None:
    assert not FORBIDDEN.search(line)


@pytest.mark.slow
def test_each_module_has_a_docstring() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
    assert [str(path.relative_to(ROOT)) for path, tree in trees.items() if not ast.get_docstring(tree)] == []


def test_no_file_is_large() -> None:
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in FILES}
    assert {name: size for name, size in sizes.items() if size > 1_000_000} == {}
