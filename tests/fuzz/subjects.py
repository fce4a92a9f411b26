"""What is tried: everything that somebody else may have written, each from sound files that are changed at random."""

import io
import json
import os
import random
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pellucid.cli.main import UNEXPECTED_HINT, main
from pellucid.config import DecodeConfig
from pellucid.data.transfer import TransferError, download_url
from pellucid.errors import DataError
from pellucid.tasks.tracing import trace, trace_search
from pellucid.tasks.translator import Translator
from pellucid.text.hugging_face import HuggingFaceTokenizer
from pellucid.text.subwords import SentencePieceTokenizer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.tracing.trace import load_trace
from pellucid.training.log import RunLog
from pellucid.views.view import view
from pellucid.weights.folder import save_description, save_weights
from pellucid.weights.opening import open_folder
from pellucid.weights.tensors import parameters, save_tensors, set_parameters
from pellucid.weights.tutorials.files import load_state_dict
from pellucid.weights.tutorials.source import read_state_dict
from tests.fuzz.changed_documents import documents
from tests.fuzz.changing import as_json, changed_bytes, changed_table, copied, damage
from tests.fuzz.trying import Attempt
from tests.processes import fork
from tests.toy_task import reversed_letters, small_arguments, write_pairs
from tests.unit.decoding.models import random_model
from tests.unit.text.subword_models import subwords
from tests.unit.text.test_own_tokenizer import Letters
from tests.unit.weights.hugging_face.folders import (
    BART,
    BERT,
    LLAMA,
    bart_tensors,
    bert_tensors,
    llama_tensors,
    write,
)

CPU = torch.device("cpu")
LETTERS = Vocabulary("characters", tuple("abcdefgh"))
TEXT = "bad cafe ▁ é 안녕 \t\u00a0"


def model_folders(base: Path) -> Attempt:
    """A model folder of ours, opened and translated with."""
    model = random_model(1, LETTERS.size)
    base.mkdir()
    save_description(base, model.config, TokenizerPair(LETTERS, LETTERS), DecodeConfig(beam_size=2), "# A card\n")
    save_weights(base, model)

    def attempt(draw: random.Random, folder: Path) -> None:
        mine = copied(base, folder / "model")
        if draw.random() < 0.7:
            path = mine / "pellucid.json"
            path.write_bytes(as_json(changed_table(json.loads(path.read_bytes()), draw)))
            if draw.random() < 0.2:
                path.rename(mine / "config.json")
        else:
            damage(mine, draw)
        Translator.load(mine).translate([TEXT], beam_size=2, n_best=1, max_length=4)

    return attempt


def own_tokenizers(base: Path) -> Attempt:
    """The record of a tokenizer of one's own, which is given when the folder is opened, or is not."""
    base.mkdir(parents=True, exist_ok=True)
    table = TokenizerPair(Letters(), LETTERS).save(base)

    def attempt(draw: random.Random, folder: Path) -> None:
        changed = changed_table(json.loads(json.dumps(table)), draw)
        given = Letters() if draw.random() < 0.8 else None
        TokenizerPair.load(base, changed if isinstance(changed, dict) else {}, given).source.encode(TEXT)

    return attempt


def foreign_folders(base: Path) -> Attempt:
    """A folder of transformers: its settings, those of its search and of its tokenizer."""
    families = (("bert", BERT, bert_tensors()), ("bart", BART, bart_tensors()), ("llama", LLAMA, llama_tensors()))
    search = {
        "num_beams": 2, "max_length": 20, "length_penalty": 1.0, "bad_words_ids": [[1], [2, 3]], "eos_token_id": [2],
        "suppress_tokens": [4], "forced_bos_token_id": 1, "no_repeat_ngram_size": 0,
    }  # fmt: skip
    marks = {
        "eos_token": "</s>", "unk_token": {"content": "<unk>"}, "pad_token": "<pad>", "add_bos_token": True,
        "additional_special_tokens": ["<x>"], "extra_ids": 1, "clean_up_tokenization_spaces": True,
    }  # fmt: skip
    pieces = subwords("unigram").proto
    for name, config, tensors in families:
        folder = write(base / name, config | {"rope_scaling": None, "id2label": {"0": "a"}}, tensors)
        (folder / "generation_config.json").write_bytes(as_json(search))
        (folder / "tokenizer_config.json").write_bytes(as_json(marks))
        (folder / "spiece.model").write_bytes(pieces)

    def attempt(draw: random.Random, folder: Path) -> None:
        mine = copied(base / draw.choice(families)[0], folder / "model")
        if draw.random() < 0.8:
            path = mine / draw.choice(("config.json", "config.json", "generation_config.json", "tokenizer_config.json"))
            path.write_bytes(as_json(changed_table(json.loads(path.read_bytes()), draw)))
            if draw.random() < 0.7:
                (mine / "spiece.model").unlink()
        else:
            damage(mine, draw)
        open_folder(mine, CPU)

    return attempt


def sentencepiece(base: Path) -> Attempt:
    """The bytes of a SentencePiece model."""
    models = [subwords(kind).proto for kind in ("bpe", "unigram")]

    def attempt(draw: random.Random, folder: Path) -> None:
        tokenizer = SentencePieceTokenizer(
            changed_bytes(draw.choice(models), draw), draw.choice(("bpe", "sentencepiece"))
        )
        _use(tokenizer)

    return attempt


def tokenizer_json(base: Path) -> Attempt:
    """A tokenizer.json, run by the library `tokenizers`."""
    import tokenizers as library
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

    def table(model: Any, **parts: Any) -> dict[str, Any]:
        made = library.Tokenizer(model)
        for name, part in parts.items():
            setattr(made, name, part)
        made.add_special_tokens(["<s>"])
        found: dict[str, Any] = json.loads(made.to_str())
        return found

    numbers = {"<unk>": 0, "a": 1, "b": 2, "ab": 3, "##c": 4, "Ġ": 5, "▁": 6}
    charsmap = "BAAAAAAAAAA="
    bases = [
        table(
            models.BPE(numbers, [("a", "b")]),
            pre_tokenizer=pre_tokenizers.Sequence(
                [pre_tokenizers.Split(library.Regex(r" ?\p{L}+|\s+"), "isolated"), pre_tokenizers.ByteLevel()]
            ),
            decoder=decoders.ByteLevel(),
        ),
        table(
            models.WordPiece(numbers, unk_token="<unk>"),
            normalizer=normalizers.BertNormalizer(),
            pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
            decoder=decoders.WordPiece(),
            post_processor=processors.TemplateProcessing("<s> $A", None, [("<s>", 7)]),
        ),
        table(
            models.Unigram([("<unk>", 0.0), ("a", -1.0), ("▁", -1.0), ("ab", -2.0)], 0, False),
            normalizer=normalizers.Sequence(
                [normalizers.Replace("b", "c"), normalizers.Prepend("▁"), normalizers.NFKC()]
            ),
            pre_tokenizer=pre_tokenizers.Metaspace(),
            decoder=decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
        ),
        table(models.WordLevel(numbers, "<unk>"), pre_tokenizer=pre_tokenizers.Whitespace()),
    ]
    bases[2]["normalizer"]["normalizers"].append({"type": "Precompiled", "precompiled_charsmap": charsmap})

    def attempt(draw: random.Random, folder: Path) -> None:
        if draw.random() < 0.85:
            data = as_json(changed_table(draw.choice(bases), draw))
        else:
            data = changed_bytes(as_json(draw.choice(bases)), draw)
        ids = {"pad_id": 0, "bos_id": 0, "eos_id": 0, "unk_id": 0}
        _use(HuggingFaceTokenizer.from_options(data, ids, "x.json"))

    return attempt


def _use(tokenizer: Any) -> None:
    ids = tokenizer.encode_lines([TEXT, "", "ab " * 50, "a" * 300])
    for each in ids:
        tokenizer.decode(each)
    every = list(range(min(tokenizer.size, 400)))
    tokenizer.tokens(every)
    tokenizer.decode(every)


def traces(base: Path) -> Attempt:
    """A trace, opened and drawn."""
    made = [
        trace(random_model(3), [5, 6, 7, 2], [1, 5, 6]),
        trace_search(random_model(3), None, DecodeConfig(), [5, 6, 7]),
    ]
    made.append(trace(random_model(3, positions="rotary"), [5, 6, 7, 2], [1, 5]))
    base.mkdir()
    files = [one.save(base / f"{number}.trace").read_bytes() for number, one in enumerate(made)]

    def attempt(draw: random.Random, folder: Path) -> None:
        data, path = draw.choice(files), folder / "x.trace"
        if draw.random() < 0.7:
            length = int.from_bytes(data[:8], "little")
            header = json.loads(data[8 : 8 + length])
            manifest = json.loads(header["__metadata__"]["manifest"])
            if draw.random() < 0.9:
                header["__metadata__"]["manifest"] = as_json(changed_table(manifest, draw)).decode()
            else:
                header = changed_table(header, draw)
            text = as_json(header)
            data = len(text).to_bytes(8, "little") + text + data[8 + length :]
        else:
            data = changed_bytes(data, draw)
        path.write_bytes(data)
        opened = load_trace(path)
        view(opened).html(folder / "x.html")
        view(opened, "beam" if opened.search is not None else "matrix").svg(folder / "x.svg")

    return attempt


def weight_files(base: Path) -> Attempt:
    """Weights: safetensors, NumPy's archives, PyTorch's."""
    base.mkdir()
    model = random_model(1)
    save_tensors(base / "x.safetensors", parameters(model))
    arrays = {name: tensor.detach().numpy() for name, tensor in parameters(model).items()}
    np.savez(base / "x.npz", **arrays)  # type: ignore[arg-type]
    torch.save(dict(parameters(model)), base / "x.pt")
    torch.save(dict(parameters(model)), base / "old.pt", _use_new_zipfile_serialization=False)
    names = ("x.safetensors", "x.npz", "x.pt", "old.pt")
    files = {name: (base / name).read_bytes() for name in names}

    def attempt(draw: random.Random, folder: Path) -> None:
        name = draw.choice(names)
        (folder / name).write_bytes(changed_bytes(files[name], draw))
        found = load_state_dict(folder / name)
        set_parameters(random_model(2), read_state_dict(found), "the file")

    return attempt


def run_folders(base: Path) -> Attempt:
    """A run that was killed in mid-training: the same command goes on to the same weights, or says what is wrong."""
    base.mkdir()
    texts = write_pairs(base, reversed_letters(60))
    command = small_arguments(*texts, base / "whole", "train.steps=10")
    assert _told(command)[0] == 0
    expected = (base / "whole" / "model.safetensors").read_bytes()

    def train_and_die() -> int:
        _die_at_step(7)
        _told(small_arguments(*texts, base / "killed", "train.steps=10"))
        return 1

    child = fork(train_and_die)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def attempt(draw: random.Random, folder: Path) -> None:
        mine = copied(base / "killed", folder / "run")
        what = damage(mine, draw)
        status, errors = _told(small_arguments(*texts, mine, "train.steps=10"))
        if UNEXPECTED_HINT in errors:
            raise RuntimeError(f"{what}: {errors.rpartition('error: ')[2]}")
        if status == 0 and (mine / "model.safetensors").read_bytes() != expected:
            raise RuntimeError(f"{what}: it ended in other weights")
        if status != 0:
            raise DataError(errors)

    return attempt


def _die_at_step(step: int) -> None:
    write_line = RunLog.write

    def write_and_die(log: RunLog, event: str, now: int, **values: Any) -> None:
        write_line(log, event, now, **values)
        if (event, now) == ("train", step):
            os._exit(0)

    RunLog.write = write_and_die  # type: ignore[method-assign]


def _told(command: list[str]) -> tuple[int, str]:
    """What a command exits with and says about what is wrong."""
    errors, out = io.StringIO(), sys.stdout
    with redirect_stderr(errors):
        status = main([*command, "--device", "cpu"])
    sys.stdout = out
    return status, errors.getvalue()[-500:]


def http_answers(base: Path) -> Attempt:
    """An answer to a download, of parts that are each sound, odd or hostile."""
    body = bytes(range(256)) * 20

    def attempt(draw: random.Random, folder: Path) -> None:
        with _answering(_answer(draw, body)) as address:
            try:
                download_url(
                    f"{address}/x", folder / "x", lambda *_: None, size=draw.choice((None, len(body))), timeout=0.5
                )
            except TransferError as error:
                raise DataError(str(error)) from error

    return attempt


def _answer(draw: random.Random, body: bytes) -> bytes:
    """The bytes of an answer."""
    lengths = (str(len(body)), "0", "-5", "9" * 5000, "1e9", "", " 7", "٣", str(2**63), "0x10", "5, 5")
    places = (
        "/x", "http://[::bad/", "ftp://localhost/x", "file:///etc/passwd", "data:,x", "http://localhost:99999/", "//",
        "", "http://\x00/", "HTTP://localhost:1/x", "x" * 70_000, "http://a b/", "javascript:1", "http://%zz/", "\xff",
    )  # fmt: skip
    chunks = ("-5", "ffffffffffffffffff", "zz", "", "0", "5;" + "x" * 70_000, "1000")
    status = draw.choice(
        ("200 OK", "206 Partial", "302 Found", "308 x", "404 No", "503 Busy", "100 Go on", "-1 x", "9" * 9)
    )
    version = draw.choice(("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/9.9", "ICY", "\x00"))
    lines = [f"{version} {status}"]
    for _ in range(draw.randint(0, 4)):
        name, values = draw.choice(
            (
                ("Content-Length", lengths),
                ("Location", places),
                ("Transfer-Encoding", ("chunked", "gzip", "CHUNKED", "x")),
                ("Content-Range", ("bytes 0-9/10", "bytes -", f"bytes {'9' * 5000}-", "x", "bytes ٣-4/5")),
                ("Connection", ("close", "keep-alive", "")),
                ("X" * draw.choice((1, 70_000)), ("", "y", ":::")),
            )
        )
        lines.append(f"{name}: {draw.choice(values)}")
    lines += ["Y: z"] * draw.choice((0, 0, 0, 200))
    head = "\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n"
    if "chunked" in head.decode("utf-8", "replace").lower():
        body = b"".join(draw.choice(chunks).encode() + b"\r\n" + body[:16] + b"\r\n" for _ in range(3))
    answer = head + body
    return changed_bytes(answer, draw) if draw.random() < 0.3 else answer


@contextmanager
def _answering(answer: bytes) -> Iterator[str]:
    """A server of one answer, whatever it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                try:
                    connection, _ = server.accept()
                except OSError:
                    continue
                with connection:
                    try:
                        connection.settimeout(1)
                        connection.recv(65536)
                        connection.sendall(answer)
                    except OSError:
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


SUBJECTS: dict[str, Callable[[Path], Attempt]] = {
    "model folders": model_folders,
    "own tokenizers": own_tokenizers,
    "foreign folders": foreign_folders,
    "SentencePiece models": sentencepiece,
    "traces": traces,
    "weight files": weight_files,
    "run folders": run_folders,
    "documents": documents,
    "HTTP answers": http_answers,
}
"""Each makes its sound files in a folder, and returns what tries them changed."""
WITH_TOKENIZERS: dict[str, Callable[[Path], Attempt]] = {"tokenizer.json": tokenizer_json}
"""The same for what needs the library `tokenizers`."""
