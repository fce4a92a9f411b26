"""The viewer's types, which stand in comments, are right as TypeScript reads them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

VIEWER = Path(__file__).parents[2] / "viewer"
INSTALLED = Path(sys.prefix, "js", "node_modules", ".bin", "tsc")


def compiler() -> str:
    """Where TypeScript's compiler is."""
    installed = str(INSTALLED) if INSTALLED.exists() else None
    found = os.environ.get("PELLUCID_TSC") or installed or shutil.which("tsc")
    if found is None:
        pytest.fail(
            f"this test needs TypeScript: `make browser` installs it ({INSTALLED}), or set PELLUCID_TSC to a tsc"
        )
    return found


def test_types_are_right() -> None:
    done = subprocess.run(
        [compiler(), "-p", VIEWER, "--pretty", "false"], cwd=VIEWER, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stdout + done.stderr


def test_a_wrong_type_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.js"
    wrong.write_text("/** @param {number} x */\nconst half = (x) => x / 2;\nhalf('2');\n", encoding="utf-8")
    settings = (VIEWER / "tsconfig.json").read_text(encoding="utf-8")
    (tmp_path / "tsconfig.json").write_text(settings, encoding="utf-8")
    done = subprocess.run([compiler(), "-p", tmp_path], capture_output=True, text=True, check=False)
    assert "TS2345" in done.stdout
