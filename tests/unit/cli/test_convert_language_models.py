"""A decoder's state dict with its tokens: what its code would write next, the command writes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from pellucid import LanguageModel
from pellucid import convert as convert_model
from pellucid.conversion.tutorial import TutorialOptions
from tests.parity.foreign_tokenizers.folders import byte_level
from tests.parity.tutorials.decoders import Book, NanoGPT, TorchLanguageModel
from tests.unit.cli.command_line import CommandLine
from tests.unit.conversion.tutorial_models import write

CHARACTERS = ["\n", " ", "!", *"abcdefghijklm"]
WORDS = ["<unk>", "the", "cat", "sat", "on", "mat", "<eos>"]


def randomly(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(8)
        model = make()
        for parameter in model.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    return model.eval()


@torch.no_grad()
def written(model: nn.Module, ids: list[int], count: int) -> list[int]:
    """What greedy search by the code's own model adds."""
    whole = list(ids)
    for _ in range(count):
        whole.append(int(model(torch.tensor([whole]))[0, -1].argmax()))
    return whole[len(ids) :]


def checkpoint(model: nn.Module) -> dict[str, object]:
    """What nanoGPT saves, of a model that was compiled."""
    state: dict[str, Tensor] = {f"_orig_mod.{name}": tensor for name, tensor in model.state_dict().items()}
    return {
        "model": state, "optimizer": {"state": {}}, "model_args": {"n_head": 4, "bias": True}, "iter_num": 100,
        "best_val_loss": torch.tensor(1.2), "config": {"dataset": "shakespeare_char"},
    }  # fmt: skip


@pytest.mark.parametrize("form", ["list", "by token", "by id", "with a start token"])
def test_nanogpts_characters(pellucid: CommandLine, tmp_path: Path, form: str) -> None:
    """Its vocabulary has no special token, and a line's end is one of its characters."""
    tokens = [*CHARACTERS[:-1], "<s>"] if form == "with a start token" else CHARACTERS
    model = randomly(lambda: NanoGPT(len(tokens), 2, 16, 4))
    torch.save(checkpoint(model), tmp_path / "ckpt.pt")
    tables = {
        "by token": {token: number for number, token in enumerate(tokens)},
        "by id": {str(number): token for number, token in enumerate(tokens)},
    }
    (tmp_path / "tokens.json").write_text(json.dumps(tables.get(form, tokens)), encoding="utf-8")
    done = pellucid("convert", tmp_path / "ckpt.pt", tmp_path / "out", "--src-vocab", tmp_path / "tokens.json")
    assert (done.status, done.err) == (0, ""), done
    expected = "".join(tokens[i] for i in written(model, [3, 4, 5], 12))
    (tmp_path / "prompt").write_text("abc\n")
    options = ["--input", tmp_path / "prompt", "--max-new-tokens", 12, "--json"]
    found = json.loads(pellucid("generate", tmp_path / "out", *options).out)
    assert found["text"] == expected.replace("<s>", "")
    if "<s>" not in tokens:
        assert "".join(found["tokens"]).replace("▁", " ") == expected


def test_probabilities_are_those_of_the_code(tmp_path: Path) -> None:
    """The special tokens that Pellucid adds have none."""
    model = randomly(lambda: NanoGPT(len(CHARACTERS), 2, 16, 4))
    torch.save(model.state_dict(), tmp_path / "model.pt")
    (tmp_path / "tokens.json").write_text(json.dumps(CHARACTERS), encoding="utf-8")
    options = TutorialOptions(num_heads=4, src_vocab=str(tmp_path / "tokens.json"))
    convert_model(tmp_path / "model.pt", tmp_path / "out", tutorial=options)
    opened = LanguageModel.load(tmp_path / "out")
    ids = torch.tensor([[0, 3, 4, 5, 0, 9]])  # an empty text begins with a line's end
    with torch.no_grad():
        log_probs = model(ids)[0].log_softmax(dim=-1)
    expected = float(log_probs[:-1].gather(1, ids[0, 1:, None]).sum())
    assert opened.score(["abc\nm".replace("m", CHARACTERS[9])]) == pytest.approx([expected], abs=1e-4)


def test_words_of_a_file(pellucid: CommandLine, tmp_path: Path) -> None:
    """PyTorch's tutorial: a token a line, with an end token among them."""
    model = randomly(lambda: TorchLanguageModel(len(WORDS), 2, 16, 4))
    torch.save(model.state_dict(), tmp_path / "model.pt")
    vocabulary = write(tmp_path / "words.txt", WORDS)
    command = ["convert", tmp_path / "model.pt", tmp_path / "out", "--num-heads", 4, "--tgt-vocab", vocabulary]
    assert pellucid(*command).status == 0
    ids = written(model, [1, 2], 5)
    ids = ids[: ids.index(6)] if 6 in ids else ids
    (tmp_path / "prompt").write_text("the cat\n")
    done = pellucid("generate", tmp_path / "out", "--input", tmp_path / "prompt", "--max-new-tokens", 5, "--json")
    assert json.loads(done.out)["tokens"][: len(ids)] == [WORDS[i] for i in ids]


@pytest.mark.foreign
def test_a_byte_level_tokenizer(pellucid: CommandLine, tmp_path: Path) -> None:
    """Its files in a folder; the embedding has more rows, as nanoGPT rounds their number up."""
    (tmp_path / "tokenizer").mkdir()
    folder = byte_level(tmp_path / "tokenizer")
    tokens = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    rows = len(tokens) + 5
    model = randomly(lambda: Book(rows, 2, 16, 4))
    with torch.no_grad():
        model.out_head.weight[len(tokens) :] = 0.0
    torch.save({"model_state_dict": model.state_dict()}, tmp_path / "model.pth")
    command = ["convert", tmp_path / "model.pth", tmp_path / "out", "--num-heads", 4, "--src-vocab"]
    assert pellucid(*command, folder).status == 0
    opened = LanguageModel.load(tmp_path / "out")
    ids = opened.tokenizer.encode("Two dogs")
    with torch.no_grad():
        torch.testing.assert_close(
            opened.model(torch.tensor([ids])), model(torch.tensor([ids]))[..., : len(tokens)], rtol=0, atol=1e-4
        )
    assert opened.generate(["Two dogs"], max_new_tokens=4)[0].tokens
    command[2] = tmp_path / "again"
    assert pellucid(*command, folder / "vocab.json").status == 0, "one of the files names the folder as well"


@pytest.mark.parametrize(
    ("more", "error", "hint"),
    [
        ([], "`--src-vocab` is required: the weights have no token ids", "vocab.json and merges.txt"),
        (
            ["--src-vocab", "meta.pkl"],
            "`meta.pkl` is a pickle, which could run code, so it is not opened",
            "json.dump(",
        ),
        (["--src-vocab", "short.json"], "`short.json` has 2 tokens, but the model's embedding 16 rows", "special ones"),
        (["--src-vocab", "gap.json"], "`gap.json` holds no vocabulary", "a list of tokens in the order of their ids"),
        (["--src-vocab", "broken.json"], "`broken.json` is not JSON", "one token per line"),
        (["--src-vocab", "empty"], "`empty` has no tokenizer's files", "tokenizer.json"),
        (
            ["--src-vocab", "short.json", "--source-without-bos"],
            "`--source-without-bos` is for a translator",
            "leave it out",
        ),
        (
            ["--src-vocab", "short.json", "--labels", "l"],
            "`--labels` is for a classifier, but this layout is a lan",
            "",
        ),
    ],
)
def test_what_is_refused(
    pellucid: CommandLine, tmp_path: Path, more: list[str], error: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(checkpoint(NanoGPT(16, 1, 16, 4)), tmp_path / "ckpt.pt")
    (tmp_path / "short.json").write_text('["a", "b"]')
    (tmp_path / "gap.json").write_text('{"a": 0, "b": 2}')
    (tmp_path / "broken.json").write_text('["a"')
    (tmp_path / "empty").mkdir()
    done = pellucid("convert", "ckpt.pt", "out", *more)
    assert done.error.startswith(error), done
    assert hint in done.hint
    assert not (tmp_path / "out").exists()


def test_the_tokenizer_of_gpt_2_is_asked_for_by_the_number_of_rows(pellucid: CommandLine, tmp_path: Path) -> None:
    torch.save(NanoGPT(50304, 1, 8, 1).state_dict(), tmp_path / "ckpt.pt")
    done = pellucid("convert", tmp_path / "ckpt.pt", tmp_path / "out", "--num-heads", 1)
    assert done.status == 2
    assert done.hint.startswith(
        "its vocabulary has the size of GPT-2's: name the folder with GPT-2's vocab.json and merges.txt"
    )


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            {"blocks.{}.attn.qkv.weight": (24, 8), "head.weight": (90, 8), "emb.weight": (90, 8)},
            "it looks like a decoder alone: 12 layers `blocks.N` with `attn.qkv.weight`, 90 words of width 8",
        ),
        (
            {"dec.{}.cross_attn.q.weight": (8, 8), "dec.{}.self_attn.q.weight": (8, 8), "e.weight": (90, 8)},
            "an encoder and a decoder: 12 layers `dec.N` with `cross_attn.q.weight`, `self_attn.q.weight`",
        ),
        ({"conv{}.weight": (3, 3)}, "it has 12 tensors ("),
    ],
)
def test_a_refusal_says_what_it_saw(
    pellucid: CommandLine, tmp_path: Path, names: dict[str, tuple[int, ...]], said: str
) -> None:
    state = {
        name.format(number): torch.zeros(shape)
        for name, shape in names.items() for number in range(12 if "{" in name else 1)
    }  # fmt: skip
    torch.save(state, tmp_path / "model.pt")
    done = pellucid("convert", tmp_path / "model.pt", tmp_path / "out")
    assert done.status == 2
    assert said in done.error
    assert "rename" not in done.hint
