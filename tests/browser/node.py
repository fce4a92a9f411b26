"""Runs the viewer's modules in Node, where a test needs their arithmetic and no page."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

VIEWER = Path(__file__).parents[2] / "viewer"
SECONDS = 240


def in_node(script: str, argument: Any = None) -> Any:
    """Runs the body of an async function in Node and returns what it returns, by JSON.

    Within it `a` is the argument, and `await viewer("model/tensors.js")` a module of the viewer. Raises AssertionError
    with what Node wrote where it fails.
    """
    node = shutil.which("node")
    if node is None:
        pytest.exit("these tests need node (Debian: apt-get install nodejs npm)", returncode=3)
    whole = (
        'import { readFileSync } from "node:fs";\n'
        f"const viewer = (path) => import({json.dumps(VIEWER.as_uri() + '/')} + path);\n"
        'const a = JSON.parse(readFileSync(0, "utf8"));\n'
        f"const made = await (async () => {{ {script} }})();\n"
        "process.stdout.write(JSON.stringify(made ?? null));\n"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", whole],
        input=json.dumps(argument), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
