"""`pellucid info`: parameters, or a walk through a pass."""

from pathlib import Path

from pellucid.tasks.translator import Translator
from tests.unit.cli.command_line import CommandLine


def test_info_lists_parameters_or_walks(pellucid: CommandLine, finished_run: Path) -> None:
    listed = pellucid("info", finished_run)
    assert (listed.status, listed.err) == (0, "")
    total = sum(p.numel() for p in Translator.load(finished_run, "cpu").model.parameters())
    assert listed.out.endswith(f"{total:,} parameters\n")
    walked = pellucid("info", finished_run, "--walk", "a b", "--target", "b a")
    assert walked.status == 0
    assert "encoder.layers.0.self_attn" in walked.out
