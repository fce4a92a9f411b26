"""What a user waits for: `import pellucid` and `pellucid --help` load nothing heavy."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HEAVY = {"torch", "sacrebleu", "sentencepiece"}

IMPORT = "import pellucid"
LIST_NAMES = "import pellucid; pellucid.__all__, dir(pellucid), pellucid.__version__"
HELP = "from pellucid.cli.main import main; assert main(['--help']) == 0"
TRACE = Path(__file__).parents[1] / "unit" / "tracing" / "version-1.trace"
DRAW = f"import pellucid; pellucid.view(pellucid.load_trace({str(TRACE)!r}), 'heads').drawing.as_svg()"
MISTAKE = "from pellucid.cli.main import main; assert main(['trian']) == 2"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh Python, without anything that this one has imported."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def loaded(code: str) -> set[str]:
    """The modules that a fresh Python has loaded after `code`."""
    report = "import sys; print(*sys.modules, sep='\\n', file=sys.__stderr__)"
    result = run("-c", f"{code}\n{report}")
    assert result.returncode == 0, result.stderr
    return set(result.stderr.split())


@pytest.mark.parametrize("code", [IMPORT, LIST_NAMES, HELP, MISTAKE])
def test_nothing_heavy_is_loaded(code: str) -> None:
    assert loaded(code) & HEAVY == set()


def test_a_saved_trace_is_drawn_without_the_code_of_models() -> None:
    packages = {".".join(name.split(".")[:2]) for name in loaded(DRAW) if name.startswith("pellucid.")}
    assert packages & {f"pellucid.{name}" for name in ("data", "decoding", "model", "tasks", "training")} == set()


def test_heavy_modules_would_be_seen() -> None:
    assert "sentencepiece" in loaded("import sentencepiece")


def test_python_m_pellucid_shows_help_on_stdout() -> None:
    result = run("-m", "pellucid", "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert "translate" in result.stdout
