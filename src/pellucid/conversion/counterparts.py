"""Runs a converted model in the library that it was converted for: ids in, numbers out, for the comparison.

Each counterpart takes the inputs of Pellucid's models: sources with all special tokens, `[*prefix, *ids, eos,
*suffix]`, and target inputs that begin with the start token.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from pellucid.config import ModelConfig
from pellucid.conversion.numbers import Numbers, token_log_probs
from pellucid.conversion.pages import Page, node
from pellucid.files.budget import MOST_TOKENIZER_BYTES
from pellucid.files.reading import read_list, read_settings
from pellucid.process import keep_torch_threads
from pellucid.text.foreign_files import SETTINGS

Kind = Literal["hf", "ct2", "onnx", "page"]
TOKENIZER_FILES = (
    "source.spm", "spiece.model", "tokenizer.model", "source.model", "sentencepiece.bpe.model", "vocab.txt",
    "merges.txt",
)  # fmt: skip
LIBRARIES: dict[Kind, str] = {"hf": "transformers", "ct2": "ctranslate2", "onnx": "onnxruntime", "page": "node"}


class Counterpart(Protocol):
    """The other side of a comparison: the calls that it supports."""

    def token_ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        """Returns each text's tokens without start and end, by the folder's own tokenizer, or None if it has none."""

    def outputs(self, ids: Sequence[int], tgt_in: Sequence[int]) -> Numbers | None:
        """Returns logits (T, V) for a target given a source, for a decoder alone (T, V) for `tgt_in`, for an encoder
        alone its states (S, D) or its classes' logits (C,); None if the library does not return them.
        """

    def log_probs(self, ids: Sequence[int], tgt_in: Sequence[int], tgt_out: Sequence[int]) -> list[float]:
        """Returns the log-probability of each token of `tgt_out`."""

    def greedy(self, ids: Sequence[int], tgt_in: Sequence[int], suppressed: Sequence[int], max_new: int) -> list[int]:
        """Returns the tokens that greedy search adds to `tgt_in`, without the end token; `suppressed` ids are never
        written.
        """


def open_counterpart(kind: Kind, folder: Path, config: ModelConfig) -> Counterpart:
    """Returns the model of `folder` in its library. Raises ImportError if the library is not installed."""
    if kind == "page":
        return Page(folder, config)
    if kind == "hf":
        return HuggingFace(folder, config)
    return CTranslate2(folder, config) if kind == "ct2" else Onnx(folder, config)


def library(kind: Kind) -> str:
    """Returns the other library and its version. Raises PackageNotFoundError, an ImportError, if it is missing."""
    if kind == "page":
        return node()
    return f"{LIBRARIES[kind]} {version(LIBRARIES[kind])}"


class HuggingFace:
    """Runs a folder by `from_pretrained` of its class, without a head that Pellucid lacks, and by its `generate`."""

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        import transformers

        name = {
            "encoder-decoder": "AutoModelForSeq2SeqLM",
            "decoder": "AutoModelForCausalLM",
            "encoder": "AutoModelForSequenceClassification" if config.num_classes else "AutoModel",
        }[config.family]
        with silent_transformers():
            model = getattr(transformers, name).from_pretrained(str(folder), local_files_only=True)
        self.model: Any = model.float().eval()
        self.config = config
        self.folder = folder

    def token_ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        if not has_tokenizer(self.folder):
            return None
        import transformers

        with silent_transformers():
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(self.folder), local_files_only=True)
            return [list(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]

    def outputs(self, ids: Sequence[int], tgt_in: Sequence[int]) -> Numbers | None:
        import torch

        with torch.inference_mode():
            if self.config.family == "decoder":
                found = self.model(input_ids=torch.tensor([list(tgt_in)]))
            elif self.config.family == "encoder":
                found = self.model(input_ids=torch.tensor([list(ids)]))
            else:
                found = self.model(input_ids=torch.tensor([list(ids)]), decoder_input_ids=torch.tensor([list(tgt_in)]))
        has_states = self.config.family == "encoder" and not self.config.num_classes
        tensor = found.last_hidden_state if has_states else found.logits
        numbers: Numbers = tensor[0].numpy()
        return numbers

    def log_probs(self, ids: Sequence[int], tgt_in: Sequence[int], tgt_out: Sequence[int]) -> list[float]:
        return token_log_probs(self.outputs(ids, tgt_in), tgt_out)

    def greedy(self, ids: Sequence[int], tgt_in: Sequence[int], suppressed: Sequence[int], max_new: int) -> list[int]:
        import torch
        from transformers import GenerationConfig

        given = torch.tensor([list(tgt_in)])
        options = GenerationConfig(
            num_beams=1, do_sample=False, max_new_tokens=max_new, suppress_tokens=list(suppressed) or None,
            pad_token_id=self.config.eos_id if self.config.pad_id is None else self.config.pad_id,
            bos_token_id=self.config.bos_id, eos_token_id=self.config.eos_id,
            decoder_start_token_id=self.config.bos_id,
        )  # fmt: skip
        self.model.generation_config = options  # else the model's own values fill the missing options
        source = given if self.config.family == "decoder" else torch.tensor([list(ids)])
        extra = {} if self.config.family == "decoder" else {"decoder_input_ids": given}
        with torch.inference_mode():
            row = self.model.generate(
                source, attention_mask=torch.ones_like(source), generation_config=options, **extra
            )[0].tolist()
        return _until_end(row[len(tgt_in) :], self.config.eos_id)


class CTranslate2:
    """Runs a folder by `ctranslate2.Translator`, or `Generator` for a decoder alone, in its stored type."""

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        import ctranslate2

        paired = config.family == "encoder-decoder"
        engine = ctranslate2.Translator if paired else ctranslate2.Generator
        with keep_torch_threads():
            self.engine: Any = engine(str(folder), device="cpu", inter_threads=1, intra_threads=1)
        self.config = config
        self.folder = folder
        shared = "shared_vocabulary.json" if paired else "vocabulary.json"
        both = [shared] * 2 if (folder / shared).exists() else ["source_vocabulary.json", "target_vocabulary.json"]
        source, target = (read_list(folder / name, MOST_TOKENIZER_BYTES) for name in both)
        self.source: list[str] = source
        self.target: list[str] = target
        self.ids: dict[str, int] = {word: i for i, word in enumerate(self.target)}
        settings = read_settings(folder / "config.json")
        self.adds_end: bool = settings.get("add_source_eos", False)

    def outputs(self, ids: Sequence[int], tgt_in: Sequence[int]) -> Numbers | None:
        if self.config.family == "encoder-decoder":
            return None
        numbers: Numbers = np.array(self.engine.forward_batch([list(tgt_in)]))[0]
        return numbers

    def token_ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        return _fast_token_ids(self.folder, texts)

    def log_probs(self, ids: Sequence[int], tgt_in: Sequence[int], tgt_out: Sequence[int]) -> list[float]:
        if self.config.family != "encoder-decoder":
            return token_log_probs(self.outputs(ids, tgt_in), tgt_out)
        words = [self.target[i] for i in tgt_in[1:]]  # the engine adds start and end itself
        result = self.engine.score_batch([self.words(ids)], [words])[0]
        return list(result.log_probs)

    def greedy(self, ids: Sequence[int], tgt_in: Sequence[int], suppressed: Sequence[int], max_new: int) -> list[int]:
        options: dict[str, Any] = {"beam_size": 1, "suppress_sequences": [[self.target[i]] for i in suppressed]}
        if self.config.family == "encoder-decoder":
            result = self.engine.translate_batch(
                [self.words(ids)], target_prefix=[[self.target[i] for i in tgt_in[1:]]],
                max_decoding_length=max_new + len(tgt_in) - 1, min_decoding_length=0, **options,
            )[0]  # fmt: skip
            words = result.hypotheses[0][len(tgt_in) - 1 :]
        else:
            result = self.engine.generate_batch(
                [[self.target[i] for i in tgt_in]], max_length=max_new, sampling_topk=1,
                include_prompt_in_result=False, min_length=0, **options,
            )[0]  # fmt: skip
            words = result.sequences[0]
        return _until_end([self.ids[word] for word in words], self.config.eos_id)

    def words(self, ids: Sequence[int]) -> list[str]:
        """Returns a source as the engine's tokens."""
        return [self.source[i] for i in (ids[:-1] if self.adds_end else ids)]


class Onnx:
    """Runs a folder by ONNX Runtime: a target's tokens at once, or one by one with the cache of the earlier ones."""

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # Threads that spin while they wait for work would take a core from each other.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.sessions: dict[str, Any] = {
            path.stem.removesuffix("_quantized"): onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
            for path in sorted((folder / "onnx").glob("*.onnx"))
        }
        self.config = config
        self.folder = folder

    def token_ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        return _fast_token_ids(self.folder, texts)

    def outputs(self, ids: Sequence[int], tgt_in: Sequence[int]) -> Numbers | None:
        if self.config.family == "encoder":
            numbers: Numbers = next(iter(self._read("model", ids).values()))[0]
            return numbers
        return self._step(tgt_in, self._make_inputs(ids), {})[0]

    def log_probs(self, ids: Sequence[int], tgt_in: Sequence[int], tgt_out: Sequence[int]) -> list[float]:
        return token_log_probs(self.outputs(ids, tgt_in), tgt_out)

    def greedy(self, ids: Sequence[int], tgt_in: Sequence[int], suppressed: Sequence[int], max_new: int) -> list[int]:
        given, past, tokens = self._make_inputs(ids), dict[str, Numbers](), list(tgt_in)
        written: list[int] = []
        while True:
            rows, past = self._step(tokens, given, past)
            rows[-1, list(suppressed)] = -np.inf
            token = int(rows[-1].argmax())
            if token == self.config.eos_id or len(written) == max_new:
                return written
            written.append(token)
            tokens = [token]

    def _read(self, name: str, ids: Sequence[int]) -> dict[str, Numbers]:
        """Returns the outputs of an encoder's graph for a text."""
        session, row = self.sessions[name], np.array([list(ids)], dtype=np.int64)
        feed = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        names = {each.name for each in session.get_inputs()}
        return _run(session, {name: value for name, value in feed.items() if name in names})

    def _make_inputs(self, ids: Sequence[int]) -> dict[str, Numbers]:
        """Returns the inputs of every decoder step that depend on a source; empty for a decoder alone."""
        if self.config.family == "decoder":
            return {}
        states = self._read("encoder_model", ids)["last_hidden_state"]
        return {"encoder_hidden_states": states, "encoder_attention_mask": np.ones((1, len(ids)), dtype=np.int64)}

    def _step(
        self, tokens: Sequence[int], given: dict[str, Numbers], past: dict[str, Numbers]
    ) -> tuple[Numbers, dict[str, Numbers]]:
        """Returns the logits (T, V) after each of some tokens, and the cache for the next ones."""
        paired = self.config.family == "encoder-decoder"
        session = self.sessions["decoder_model_merged" if paired else "model"]
        feed: dict[str, Any] = {"input_ids": np.array([list(tokens)], dtype=np.int64), **given}
        if paired:
            feed["use_cache_branch"] = np.array([bool(past)])
        else:
            length = len(tokens) + (next(iter(past.values())).shape[2] if past else 0)
            feed["attention_mask"] = np.ones((1, length), dtype=np.int64)
        for each in session.get_inputs():
            if each.name.startswith("past_"):
                _, heads, _, width = each.shape
                feed[each.name] = past.get(each.name, np.zeros((1, heads, 0, width), dtype=np.float32))
        found = _run(session, feed)
        logits = found.pop("logits")[0]
        return logits, {name.replace("present", "past_key_values"): value for name, value in found.items()}


def has_tokenizer(folder: Path) -> bool:
    """Returns True if a folder has tokenizer files for its model; a page always has a tokenizer."""
    return folder.is_file() or any((folder / name).exists() for name in ("tokenizer.json", SETTINGS, *TOKENIZER_FILES))


def _fast_token_ids(folder: Path, texts: Sequence[str]) -> list[list[int]] | None:
    """Returns the tokens of texts by a folder's tokenizer.json; None without the file, or without a library that reads
    it.
    """
    path = folder / "tokenizer.json"
    if not path.exists() or find_spec("tokenizers") is None:
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True
    found: list[list[int]] = [each.ids for each in tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    return found


def _run(session: Any, feed: dict[str, Any]) -> dict[str, Numbers]:
    """Returns a graph's outputs, by name."""
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, feed), strict=True))


def _until_end(ids: list[int], eos_id: int) -> list[int]:
    return ids[: ids.index(eos_id)] if eos_id in ids else ids


@contextmanager
def silent_transformers() -> Iterator[None]:
    """Runs transformers without its progress bars and reports, which are not about the comparison."""
    import transformers

    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
