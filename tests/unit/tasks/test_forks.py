"""A process that is forked off after a translation translates, too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FORKED = """
import os, signal, sys
import torch
from pellucid.tasks.translator import Translator

torch.set_num_threads(2)
translator = Translator.load(sys.argv[1], "cpu")
lines = ["a b c d e f g h"] * 40
before = [t.text for t in translator.translate(lines)]
(torch.randn(600, 600) @ torch.randn(600, 600)).sum()  # surely in both threads
child = os.fork()
if not child:
    (torch.randn(600, 600) @ torch.randn(600, 600)).sum()
    after = [t.text for t in translator.translate(lines)]
    os._exit(0 if after == before else 1)
signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
signal.alarm(100)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_translates_as_its_parent_did(finished_run: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", FORKED, finished_run], env=environment, check=False, timeout=300)
    assert done.returncode == 0
