"""schemathesis writes requests by the OpenAPI document of the server, which answers each of them without failing.

PELLUCID_EXAMPLES=160 pytest -m foreign tests/parity/clients/test_specification.py      5,000 requests
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.serve.serving import Server, serve

pytestmark = pytest.mark.foreign
EXAMPLES = int(os.environ.get("PELLUCID_EXAMPLES", "4"))
"""The requests of each operation."""


def prefer_examples(schema: Any) -> Any:
    """Returns a schema whose examples are the only values: few texts that are drawn name a language."""
    if isinstance(schema, dict):
        found = {name: prefer_examples(each) for name, each in schema.items()}
        return {"enum": found.pop("examples"), **found} if "type" in found and "examples" in found else found
    return [prefer_examples(each) for each in schema] if isinstance(schema, list) else schema


def test_no_request_of_schemathesis_fails_the_server(folder: Path, tmp_path: Path) -> None:
    with serve([folder]) as running:
        document = tmp_path / "spec.json"
        document.write_text(json.dumps(prefer_examples(running.ask("GET", "/spec").json)), encoding="utf-8")
        words = [str(document), "--url", running.url, "--checks", "not_a_server_error", "--phases", "fuzzing"]
        words += [
            "--max-examples",
            str(EXAMPLES),
            "--seed",
            "1",
            "--no-color",
            "--no-shrink",
            "--request-timeout",
            "60",
        ]
        words += ["--suppress-health-check", "all", "--generation-database", "none"]
        program = Path(sys.executable).with_name("schemathesis")
        done = subprocess.run(
            [program, "run", *words], capture_output=True, encoding="utf-8", cwd=tmp_path, timeout=60 + 20 * EXAMPLES
        )
        found = re.search(r"(\d[\d,]*) generated, \1 passed", done.stdout)
        assert (done.returncode, bool(found)) == (0, True), done.stdout
        print(f"{found[0] if found else 0}; answers by class:", {n: answers(running, n) for n in "2345"})
        assert answers(running, "2") > 0 < answers(running, "4")
        assert not answers(running, "5")


def answers(running: Server, status: str) -> float:
    """Returns the number of answers whose status begins with a digit, by the metrics of the server."""
    lines = running.ask("GET", "/metrics").text.splitlines()
    counts = [line for line in lines if line.startswith("pellucid_requests_total{") and f'status="{status}' in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in counts)
