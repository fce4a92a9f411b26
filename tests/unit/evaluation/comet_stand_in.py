"""An environment that has a stand-in for unbabel-comet: a Python of its own with packages of a few lines.

What of COMET is called has the signatures of unbabel-comet 2.2.7. The stand-in's score of a line is the share of its
words that stand in the reference, of a model that reads none in the source.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

COMET = """
import os, sys, time
print("printed by the library")
print("warned by the library", file=sys.stderr)

class _Hparams(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error

class _Parameter:
    dtype = "torch.float32"

class _Prediction(dict):
    __getattr__ = dict.__getitem__

class _Model:
    def __init__(self, kind):
        self.kind = kind
        self.hparams = _Hparams(input_segments=["mt", "src", "ref"]) if kind == "unified" else _Hparams()

    def parameters(self):
        yield _Parameter

    def requires_references(self):
        return self.kind == "regression"

    def predict(self, samples, batch_size=16, gpus=1, devices=None, mc_dropout=0, progress_bar=True,
                accelerator="auto", num_workers=None, length_batching=True):
        assert not progress_bar and gpus == 0 and devices is None
        print("Predicting: 100%")
        scores = []
        for sample in samples:
            words, right = sample["mt"].split(), sample.get("ref", sample["src"]).split()
            scores.append(sum(word in right for word in words) / max(1, len(words)))
        return _Prediction(scores=scores, system_score=sum(scores) / len(scores))

def load_from_checkpoint(checkpoint_path, reload_hparams=False, strict=False, local_files_only=False):
    with open(checkpoint_path) as file:
        kind = file.read()
    if kind == "hangs":
        time.sleep(60)
    if kind == "dies":
        print("Killed: out of memory", file=sys.stderr)
        os._exit(9)
    if kind == "fails":
        raise RuntimeError("size mismatch for encoder.weight")
    return _Model(kind)
"""
TORCH = """
class cuda:
    is_available = staticmethod(lambda: False)
def set_num_threads(number): print("threads", number)
"""
HUB = '''
import os
from pathlib import Path

class LocalEntryNotFoundError(FileNotFoundError, ValueError):
    """The hub's error has these two for bases."""

def snapshot_download(repo_id, *, local_files_only=False):
    assert local_files_only == ("HF_HUB_OFFLINE" in os.environ) == ("TRANSFORMERS_OFFLINE" in os.environ)
    folder = Path(__file__).parent / "hub" / repo_id
    if local_files_only and not folder.exists() or repo_id == "without/network":
        raise LocalEntryNotFoundError(f"no connection, and no {repo_id} in the cache")
    return str(folder)
'''
VERSIONS = {"unbabel_comet": "2.2.7", "torch": "2.13.0", "transformers": "4.57.6"}


@dataclass(frozen=True)
class StandIn:
    """The environment in a folder."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        return self.folder / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"

    def model(self, kind: str, folder: Path | None = None) -> Path:
        """Writes a model: `regression` needs references, `referenceless` reads none, `unified` does if it has them."""
        folder = folder or self.folder / kind
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "checkpoints" / "model.ckpt").write_text(kind, encoding="utf-8")
        (folder / "hparams.yaml").write_text("", encoding="utf-8")
        return folder

    def on_hub(self, name: str) -> Path:
        """Returns the folder where the stand-in for the hub's package looks for a model."""
        return self.packages / "huggingface_hub" / "hub" / name


def stand_in(folder: Path) -> StandIn:
    """Makes the environment."""
    made = StandIn(folder)
    made.packages.mkdir(parents=True)
    made.python.parent.mkdir()
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    made.python.symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\n", encoding="utf-8")
    for name, source in {"comet": COMET, "torch": TORCH, "huggingface_hub": HUB}.items():
        (made.packages / name).mkdir()
        (made.packages / name / "__init__.py").write_text(source, encoding="utf-8")
    for name, version in VERSIONS.items():
        about = made.packages / f"{name}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n", encoding="utf-8"
        )
    return made
