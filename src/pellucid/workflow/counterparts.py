"""A converted model in the library that it was converted for: ids in, numbers out, to compare with ours.

Each counterpart takes what our models take: sources with all that stands around them, `[*prefix, *ids, eos, *suffix]`,
and target inputs that begin with the start token.
"""

import json
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from pellucid.config import ModelConfig

Kind = Literal["hf", "ct2", "onnx"]
Numbers = npt.NDArray[np.floating[Any]]
LIBRARIES: dict[Kind, str] = {"hf": "transformers", "ct2": "ctranslate2", "onnx": "onnxruntime"}


class Counterpart(Protocol):
    """What the other side can be asked."""

    def token_ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        """The tokens of each text without start and end, by the folder's own tokenizer; None where it has none."""

    def outputs(self, ids: Sequence[int], tgt_in: Sequence[int]) -> Numbers | None:
        """Logits (T, V) for a target given a source, of a decoder alone (T, V) for `tgt_in`, of an encoder alone its
        states (S, D) or its classes' logits (C,); None where the library does not tell."""

    def log_probs(self, ids: Sequence[int], tgt_in: Sequence[int], tgt_out: Sequence[int]) -> list[float]:
        """The log-probability of each token of `tgt_out`."""

    def greedy(self, ids: Sequence[int], tgt_in: Sequence[int], suppressed: Sequence[int], max_new: int) -> list[int]:
        """What greedy search adds to `tgt_in`, without the end token; `suppressed` ids are never written."""


def open_counterpart(kind: Kind, folder: Path, config: ModelConfig) -> Counterpart:
    """The model of `folder` in its library. Raises ImportError where that is not installed."""
    if kind == "hf":
        return HuggingFace(folder, config)
    return CTranslate2(folder, config) if kind == "ct2" else Onnx(folder, config)


def library(kind: Kind) -> str:
    """The other library and its version. Raises PackageNotFoundError, an ImportError, where it is not installed."""
    return f"{LIBRARIES[kind]} {version(LIBRARIES[kind])}"


class HuggingFace:
    """By `from_pretrained` of its own class for such a model, without a head that ours lacks; and its `generate`."""

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        import transformers

        name = {
            "encoder-decoder": "AutoModelForSeq2SeqLM",
            "decoder": "AutoModelForCausalLM",
            "encoder": "AutoModelForSequenceClassification" if config.num_classes else "AutoModel",
        }[config.family]
        with _silent(transformers):
            model = getattr(transformers, name).from_pretrained(str(folder), local_files_only=True)
        self.model: Any = model.float().eval()
        self.config, self.folder = config, folder

    def token_ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        import transformers

        if not (self.folder / "tokenizer_config.json").exists():
            return None
        with _silent(transformers):
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
        return _chosen(self.outputs(ids, tgt_in), tgt_out)

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
        self.model.generation_config = options  # else its own fill what is not given
        source = given if self.config.family == "decoder" else torch.tensor([list(ids)])
        extra = {} if self.config.family == "decoder" else {"decoder_input_ids": given}
        with torch.inference_mode():
            row = self.model.generate(
                source, attention_mask=torch.ones_like(source), generation_config=options, **extra
            )[0].tolist()
        return _until_end(row[len(tgt_in) :], self.config.eos_id)


class CTranslate2:
    """By `ctranslate2.Translator`, or `Generator` for a decoder alone; in the type that the folder has."""

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        import ctranslate2

        paired = config.family == "encoder-decoder"
        engine = ctranslate2.Translator if paired else ctranslate2.Generator
        self.engine: Any = engine(str(folder), device="cpu", inter_threads=1, intra_threads=1)
        self.config = config
        shared = "shared_vocabulary.json" if paired else "vocabulary.json"
        both = [shared] * 2 if (folder / shared).exists() else ["source_vocabulary.json", "target_vocabulary.json"]
        self.source, self.target = (json.loads((folder / name).read_text(encoding="utf-8")) for name in both)
        self.ids = {word: i for i, word in enumerate(self.target)}
        self.adds_end = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("add_source_eos", False)

    def outputs(self, ids: Sequence[int], tgt_in: Sequence[int]) -> Numbers | None:
        if self.config.family == "encoder-decoder":
            return None
        numbers: Numbers = np.array(self.engine.forward_batch([list(tgt_in)]))[0]
        return numbers

    def token_ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        return None

    def log_probs(self, ids: Sequence[int], tgt_in: Sequence[int], tgt_out: Sequence[int]) -> list[float]:
        if self.config.family != "encoder-decoder":
            return _chosen(self.outputs(ids, tgt_in), tgt_out)
        words = [self.target[i] for i in tgt_in[1:]]  # it adds start and end itself
        result = self.engine.score_batch([self.words(ids)], [words])[0]
        return list(result.log_probs)

    def greedy(self, ids: Sequence[int], tgt_in: Sequence[int], suppressed: Sequence[int], max_new: int) -> list[int]:
        options: dict[str, Any] = {"beam_size": 1, "suppress_sequences": [[self.target[i]] for i in suppressed]}
        if self.config.family == "encoder-decoder":
            result = self.engine.translate_batch(
                [self.words(ids)], target_prefix=[[self.target[i] for i in tgt_in[1:]]],
                max_decoding_length=max_new + len(tgt_in) - 1, **options,
            )[0]  # fmt: skip
            words = result.hypotheses[0][len(tgt_in) - 1 :]
        else:
            result = self.engine.generate_batch(
                [[self.target[i] for i in tgt_in]], max_length=max_new, sampling_topk=1,
                include_prompt_in_result=False, **options,
            )[0]  # fmt: skip
            words = result.sequences[0]
        return _until_end([self.ids[word] for word in words], self.config.eos_id)

    def words(self, ids: Sequence[int]) -> list[str]:
        """A source as the engine takes it."""
        return [self.source[i] for i in (ids[:-1] if self.adds_end else ids)]


class Onnx:
    """By ONNX Runtime, a token at a time."""

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # Threads that wait for work by turning round would take a core from each other.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.sessions: dict[str, Any] = {
            path.stem: onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            for path in (folder / "encoder.onnx", folder / "decoder.onnx")
            if path.exists()
        }
        self.config = config

    def token_ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        return None

    def outputs(self, ids: Sequence[int], tgt_in: Sequence[int]) -> Numbers | None:
        if self.config.family == "encoder":
            numbers: Numbers = next(iter(self._encoded(ids).values()))[0]
            return numbers
        given, past = self._encoded(ids), self._nothing()
        rows = []
        for token in tgt_in:
            logits, past = self._step(token, given, past)
            rows.append(logits)
        return np.stack(rows)

    def log_probs(self, ids: Sequence[int], tgt_in: Sequence[int], tgt_out: Sequence[int]) -> list[float]:
        return _chosen(self.outputs(ids, tgt_in), tgt_out)

    def greedy(self, ids: Sequence[int], tgt_in: Sequence[int], suppressed: Sequence[int], max_new: int) -> list[int]:
        given, past = self._encoded(ids), self._nothing()
        for token in tgt_in:
            logits, past = self._step(token, given, past)
        written: list[int] = []
        while True:
            logits[list(suppressed)] = -np.inf
            token = int(logits.argmax())
            if token == self.config.eos_id or len(written) == max_new:
                return written
            written.append(token)
            logits, past = self._step(token, given, past)

    def _encoded(self, ids: Sequence[int]) -> dict[str, Numbers]:
        if "encoder" not in self.sessions:
            return {}
        session = self.sessions["encoder"]
        feed = {"src": np.array([list(ids)], dtype=np.int64)}
        if self.config.num_segments:
            feed["segments"] = np.zeros_like(feed["src"])
        return dict(zip([o.name for o in session.get_outputs()], session.run(None, feed), strict=True))

    def _nothing(self) -> dict[str, Numbers]:
        heads = self.config.num_kv_heads or self.config.num_heads
        empty = np.zeros((1, heads, 0, self.config.head_width), dtype=np.float32)
        return {i.name: empty for i in self.sessions["decoder"].get_inputs() if i.name.startswith("past_")}

    def _step(
        self, token: int, given: dict[str, Numbers], past: dict[str, Numbers]
    ) -> tuple[Numbers, dict[str, Numbers]]:
        session = self.sessions["decoder"]
        found = session.run(None, {"tokens": np.array([[token]], dtype=np.int64), **given, **past})
        outputs = dict(zip([o.name for o in session.get_outputs()], found, strict=True))
        logits = outputs.pop("logits")[0]
        return logits, {f"past_{name}": value for name, value in outputs.items()}


def _chosen(logits: Numbers | None, tokens: Sequence[int]) -> list[float]:
    """The log-probabilities of tokens (T,) by logits (T, V)."""
    assert logits is not None
    wide = logits.astype(np.float64)
    top = wide.max(axis=-1, keepdims=True)
    log_probs = wide - top - np.log(np.exp(wide - top).sum(axis=-1, keepdims=True))
    return [float(row[token]) for row, token in zip(log_probs, tokens, strict=True)]


def _until_end(ids: list[int], eos_id: int) -> list[int]:
    return ids[: ids.index(eos_id)] if eos_id in ids else ids


class _silent:  # noqa: N801
    """transformers without its bars and reports, which are about its own insides."""

    def __init__(self, transformers: Any) -> None:
        self.logging = transformers.utils.logging

    def __enter__(self) -> None:
        self.warnings = warnings.catch_warnings()
        self.warnings.__enter__()
        warnings.simplefilter("ignore")
        self.level, self.bars = self.logging.get_verbosity(), self.logging.is_progress_bar_enabled()
        self.logging.set_verbosity_error()
        self.logging.disable_progress_bar()

    def __exit__(self, *_: object) -> None:
        self.warnings.__exit__(None, None, None)
        self.logging.set_verbosity(self.level)
        if self.bars:
            self.logging.enable_progress_bar()
