"""The shape comments in `model/` and of the fast step are true, and some run reaches each of them."""

from functools import partial
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest
import torch

import pellucid.model
from pellucid.config import ModelConfig
from pellucid.decoding import fast_step
from pellucid.model.attention import attention
from pellucid.model.families import DecoderOnly, SequenceClassifier
from pellucid.model.transformer import Transformer
from tests.project.shape_comments import Run, check, collect

pytestmark = pytest.mark.slow

# Different primes, so that no size is another by chance; D is H * K.
SIZES = {"H": 2, "N": 3, "B": 5, "S": 7, "T": 11, "K": 13, "D": 26, "F": 17, "V": 19, "W": 23}
SRC_VOCAB_SIZE = 29

MODEL_FILES = [*sorted(Path(pellucid.model.__path__[0]).glob("*.py")), Path(fast_step.__file__)]


# Rotary positions turn pairs: the head width is even there, and still no other size.
ROTARY_SIZES = SIZES | {"K": 14, "D": 28}
CLASSES = {"C": 31}


def transformer(**fields: object) -> Transformer:
    """A model of these sizes."""
    return Transformer(config(**fields)).eval()


def config(**fields: object) -> ModelConfig:
    """A shape of these sizes."""
    return ModelConfig.preset(
        "tiny",
        src_vocab_size=SRC_VOCAB_SIZE,
        tgt_vocab_size=SIZES["V"],
        d_ff=SIZES["F"],
        num_heads=SIZES["H"],
        **(
            {
                "d_model": SIZES["D"],
                "tie_embeddings": "decoder",
                "num_encoder_layers": SIZES["N"],
                "num_decoder_layers": SIZES["N"],
            }
            | fields
        ),
    )


def ids(vocab_size: int, *shape: str) -> torch.Tensor:
    """Random ids without padding, of the sizes that the letters of `shape` stand for."""
    return torch.randint(3, vocab_size, [SIZES[letter] for letter in shape])


def runs() -> list[Run]:
    """Calls that together reach each shape comment of the model. A new path through the model is added here."""
    model = transformer()
    learned = transformer(positions="learned", norm="post", gated_feed_forward=True, activation="silu")
    relative = transformer(positions="relative", norm_type="rms", bias=False)
    classes = {"num_decoder_layers": 0, "num_classes": CLASSES["C"]}
    classifier = SequenceClassifier(config(**classes, classifier_activation="tanh"))
    of_means = [SequenceClassifier(config(**classes, pooling="mean", pad_id=pad_id)) for pad_id in (0, None)]
    grouped = {"d_model": ROTARY_SIZES["D"], "num_kv_heads": 1, "num_encoder_layers": 0, "positions": "rotary"}
    rotary = DecoderOnly(config(**grouped)).eval()
    src, tgt, beam = ids(SRC_VOCAB_SIZE, "B", "S"), ids(SIZES["V"], "B", "T"), ids(SIZES["V"], "B", "W")
    prompt = torch.cat([tgt, tgt[:, :1]], dim=1)  # its last token is left to the step
    q, k = torch.randn([SIZES[letter] for letter in "BHTK"]), torch.randn([SIZES[letter] for letter in "BHSK"])
    return [
        Run("forward", lambda: model(src, tgt), SIZES),
        Run("forward, learned positions, gated", lambda: learned(src, tgt), SIZES),
        Run("training", lambda: transformer().train()(src, tgt), SIZES),
        Run("decode", lambda: model.decode(tgt, model.encode(src), src), SIZES),
        Run("attention without a mask", lambda: attention(q, k, k, fused=False), SIZES),
        Run("fused attention", lambda: attention(q, k, k, fused=True), SIZES),
        Run("relative positions", lambda: relative(src, tgt), SIZES),
        Run("classes", lambda: classifier(src), SIZES | CLASSES),
        Run("classes of a mean", lambda: [model(src) for model in of_means], SIZES | CLASSES),
        Run("a decoder alone, rotary positions, grouped heads", lambda: rotary(tgt), ROTARY_SIZES),
        Run(
            "steps of a decoder alone",
            lambda: rotary.step(tgt[:, -1:], rotary.start(prompt)),
            ROTARY_SIZES | {"W": 1},
        ),
        Run("steps of a beam", lambda: steps(model, src, beam), SIZES),
        Run("fast steps of a beam", lambda: steps(model, src, beam, fast=True), SIZES),
        Run("fast steps of one hypothesis each", lambda: steps(model, src, beam[:, :1], fast=True), SIZES | {"W": 1}),
    ]


@torch.no_grad()
def steps(model: Transformer, src: torch.Tensor, beam: torch.Tensor, fast: bool = False) -> None:
    """Decodes two positions with a cache; the second finds the keys of the first, hypotheses have changed places."""
    cache = model.start(src, beam_size=beam.size(1))
    step = fast_step.make_step(model, cache) if fast else partial(model.step, cache=cache)
    parents = torch.arange(beam.size(1)).flip(0).expand_as(beam)
    for _ in range(2):
        step(beam)
        cache.reorder(parents)


def test_shape_comments_of_the_model_are_true_and_all_reached() -> None:
    problems = check(MODEL_FILES, runs()).problems
    assert not problems, "\n".join(problems)


def test_the_model_has_shape_comments() -> None:
    assert sum(len(collect(path)[0]) for path in MODEL_FILES) >= 20


def module_of(folder: Path, source: str) -> ModuleType:
    """The module of a source text."""
    path = folder / "fake.py"
    path.write_text(source, encoding="utf-8")
    spec = util.spec_from_file_location("fake", path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def problems(folder: Path, source: str, *shape: str) -> list[str]:
    """What `check` finds in a source text when its function `f` gets a tensor of sizes `shape`."""
    module = module_of(folder, source)
    x = torch.zeros([SIZES[letter] for letter in shape or ("B", "H", "T", "K")])
    return check([folder / "fake.py"], [Run("fake", lambda: module.f(x), SIZES)]).problems


@pytest.mark.parametrize(
    "body",
    [
        "y = x.transpose(1, 2)  # (B, T, H, K)\n return y",
        "return x.transpose(1, 2).flatten(2)  # (B, T, D)",
        "return x.transpose(1, 2).flatten(2)  # (B, T, H*K), as the paper has it",
        "y, z = x[:, :1], x.transpose(1, 2)  # (B, 1, T, K), (B, T, H, K)",
        "y = z = x.flatten(0, 1)  # (B * H, T, K)",
        "y, z = x.chunk(2, dim=1)  # (B, 1, T, K)",
        "return x, x  # (B, H, T, K)",
        "return x, x.sum(0)  # (B, H, T, K), (H, T, K)",
        "x += 1  # (..., T, K)",
        "y: object = x[0, 0, :, 0]  # (T,)",
        "y = torch.cat(\n  [x, x[:, :, :1]],\n  dim=2,\n )  # (B, H, T + 1, K)",
        "y = torch.cat(  # (B, H, T+1, K)\n  [x, x[:, :, :1]],\n  dim=2,\n )",
        "scores = x @ x.mT  # (B, H, L, L)\n return scores",
        "y = sum([t for t in x])  # (H, T, K)",
        "for y in x:\n  y = y.mT  # (H, K, T)",
        "y = [0, 0]\n y[1] = x[0]  # (H, T, K)",
        "y = None if x is None else x  # (B, H, T, K)",
        "y = [\n  z.mT\n  for z in x\n ][0]  # (H, K, T)",
        "with torch.no_grad():\n  return x.mT  # (B, H, K, T)",
        "try:\n  return x.mT  # (B, H, K, T)\n finally:\n  x = x[0]  # (H, T, K)",
        "def g(z):\n  return z.mT  # (M, L)\n g(x[0, 0])\n g(x[0, 0].mT)",
    ],
)
def test_true_comments_pass(tmp_path: Path, body: str) -> None:
    assert problems(tmp_path, f"import torch\ndef f(x):\n {body}\n") == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            "y = x.mT  # (B, H, T, K)\n return y",
            "fake.py:3: `y`  # (B, H, T, K): `y` is (5, 2, 13, 11), but (B, H, T, K) is (5, 2, 11, 13) (run fake)",
        ),
        ("return x.mT  # (B, H, T, K)", "`return` is (5, 2, 13, 11), but (B, H, T, K) is (5, 2, 11, 13)"),
        ("with torch.no_grad():\n  return x.mT  # (B, H, T, K)", "`return` is (5, 2, 13, 11), but"),
        ("return x, x.mT  # (B, H, T, K)", "`return` is (5, 2, 13, 11), but"),
        ("return x, x  # (B, H, T, K), (B, H, T, K), (B,)", "2 values for 3 shapes"),
        ("y, z = x, x.mT  # (B, H, T, K), (B, H, T, K)", "`z` is (5, 2, 13, 11), but"),
        ("y = x  # (B, H, K)", "but (B, H, K) has 3 dimensions"),
        ("x = x[:, :, 1:]  # (B, H, T, K)\n x = x[:, :, 1:]", "`x` is (5, 2, 10, 13), but"),
        ("y = x  # (..., T)", "but (..., T) is (11,)"),
        ("y = x @ x.mT  # (B, H, L, M)\n z = y[..., 1:]  # (B, H, L, M)", "fake.py:4"),
        ("y = x  # (B, Z, T, K)", "`Z` has no size here"),
        ("y = x  # (B, H, T, K+M)", "`M` has no size here"),
        ("y = [x]  # (B, H, T, K)", "`y` is a list, not a tensor"),
        ("if x is None:\n  y = x  # (B, H, T, K)", "fake.py:4: `y`  # (B, H, T, K): no run reaches this line"),
        ("y = None  # (B, H, T, K)", "no run reaches this line"),
        ("try:\n  y = x.no_such_method()  # (B, H, T, K)\n except AttributeError:\n  pass", "no run reaches this line"),
        ("x.mul_(2)  # (B, H, T, K)", "fake.py:3: `# (B, H, T, K)`: begin the comment of an assignment or a return"),
        ("for y in x:  # (H, T, K)\n  pass", "begin the comment of an assignment"),
        ("y = x  # scores: (B, H, T, K)", "begin the comment of an assignment"),
        ("y = x  # (B, H, T, K) -> (B, T, H, K)", "begin the comment of an assignment"),
        ("y = x  # (B, H, T, K), (B, H, T, K)", "begin the comment of an assignment"),
        ("y = x  # (B, H, length, K)", "begin the comment of an assignment"),
        ("y = x  # each (B, H, T, K)", "begin the comment of an assignment"),
        ("y, *z = x  # (H, T, K)", "begin the comment of an assignment"),
        ("y = torch.cat(\n  [x, x],  # (B, H, T, K)\n )", "begin the comment of an assignment"),
    ],
)
def test_false_unreached_and_misplaced_comments_are_reported(tmp_path: Path, body: str, problem: str) -> None:
    found = problems(tmp_path, f"import torch\ndef f(x):\n {body}\n")
    assert len(found) == 1
    assert problem in found[0]


def test_prose_is_no_claim(tmp_path: Path) -> None:
    source = "def f(x):\n # from (B, T, D) to (B, H, T, K)\n y = x  # (section 3.2), (1), softmax(QK)\n return y\n"
    assert problems(tmp_path, source) == []
    assert collect(tmp_path / "fake.py") == ([], [])


def test_attributes_are_looked_up_on_the_object(tmp_path: Path) -> None:
    source = (
        "class Cache:\n def append(self, keys):\n  self.keys = keys.mT  # (B, H, T, K)\ndef f(x):\n Cache().append(x)\n"
    )
    assert len(problems(tmp_path, source)) == 1
    assert problems(tmp_path, source.replace(".mT", "")) == []


def test_each_run_has_its_own_sizes(tmp_path: Path) -> None:
    module = module_of(tmp_path, "def f(x):\n return x.clone()  # (B, T)\n")
    step = SIZES | {"T": 1}
    full, one = torch.zeros(SIZES["B"], SIZES["T"]), torch.zeros(SIZES["B"], 1)
    paths = [tmp_path / "fake.py"]
    assert (
        check(paths, [Run("full", lambda: module.f(full), SIZES), Run("step", lambda: module.f(one), step)]).wrong == []
    )
    assert "(run step)" in check(paths, [Run("step", lambda: module.f(one), SIZES)]).wrong[0]
