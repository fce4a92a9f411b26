"""Text in, text out: compares the results of the call in an exported folder's README.md with Pellucid's."""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pellucid.config import DecodeConfig
from pellucid.conversion.counterparts import silent_transformers
from pellucid.conversion.pages import NEW_TOKENS, Page
from pellucid.decoding.batched_search import search
from pellucid.decoding.ids import list_suppressed_ids
from pellucid.errors import format_value
from pellucid.model.families import DecoderOnly, SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.process import keep_torch_threads
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.translator import Translator
from pellucid.text.language_codes import codes_are_special
from pellucid.weights.export.calls import ExportedCall
from pellucid.weights.folder import SavedModel

CASES = (
    "a dog runs.", "A DOG RUNS!", "Ein Hund läuft über die Straße.", "le café naïf, l'été", "cafe\u0301 nai\u0308f",
    "😀 👍🏽 2️⃣", "犬 ж ქ 한국", "Two dogs run. A man sleeps! Who?", "  two  spaces ", "x", "3.14 & 50 % (a/b)",
)  # fmt: skip
"""Texts with special cases, which precede the first SENTENCES of the compared sentences."""
SENTENCES = 8
_BYTE = re.compile("<0x[0-9A-F]{2}>")


def compare_texts(
    saved: SavedModel, by: ExportedCall | Page, folder: Path, sentences: Sequence[str], tolerance: float
) -> dict[str, Any]:
    """Returns the ConversionReport fields that count the texts for which a folder's call, or a page, gives equal
    output.

    Outputs are compared greedily, each text as one sentence, and also with the call's beam size if it is above 1.
    """
    call = by if isinstance(by, ExportedCall) else None
    if saved.tokenizers is None or (call is None and saved.languages) or (call and call.reading.opens_with == "ids"):
        return {}
    decode = saved.decode if call is None else call.decode
    ours, tag = _Ours(saved, decode), get_language_tag(saved, decode)
    given = (f"{tag} {text}" if tag else text for text in (*CASES, *sentences[:SENTENCES]))
    texts = [text for text in given if ours.fits(text)]
    beams = decode.beam_size if call and call.has_beams else 0
    options: dict[str, int] = {"max_new_tokens": NEW_TOKENS} if ours.task == "generate" else {}
    options |= {"beam_size": 1} if call and beams else {}
    falls_back = call is not None and call.reading.opens_with == "tokenizers" and ours.task in ("translate", "generate")
    equal = ties = in_bytes = beams_equal = 0
    other = ""
    try:
        with silent_transformers() if call and call.target == "hf" else nullcontext(), keep_torch_threads():
            function: Callable[..., Any] = by.bind(folder) if isinstance(by, ExportedCall) else by.function(ours.task)
            for text in texts:
                expected, found = ours(text), function(text, **options)
                if _same(expected, found, tolerance):
                    equal += 1
                elif falls_back and found == ours.decode_with_byte_fallback(text, expected):
                    in_bytes += 1
                elif ours.has_near_tie(text, tolerance):
                    ties += 1
                elif not other:
                    other = f"`{format_value(text)}`: `{format_value(str(found))}`, not `{format_value(str(expected))}`"
                if beams:
                    expected, found = ours(text, beams), function(text)
                    beams_equal += found == expected or (
                        falls_back and found == ours.decode_with_byte_fallback(text, expected, beams)
                    )
    except Exception as error:  # another library may raise anything
        return {"texts": len(texts), "texts_error": f"{type(error).__name__}: {format_value(str(error))}"}
    results = {"texts": len(texts), "texts_equal": equal, "texts_near_ties": ties, "texts_other": other}
    results |= {"texts_of_bytes": in_bytes}
    return results | {"beams": beams, "beams_equal": beams_equal}


def get_language_tag(saved: SavedModel, decode: DecodeConfig) -> str:
    """Returns the token with which a text names the target language if the model requires one and `decode` has none;
    else "".
    """
    if saved.tokenizers is None or not saved.languages or codes_are_special(saved.tokenizers, saved.languages):
        return ""
    if set(saved.languages.values()) & set(decode.source_prefix):
        return ""
    return saved.tokenizers.source.tokens([next(iter(saved.languages.values()))])[0]


def _same(ours: Any, theirs: Any, tolerance: float) -> bool:
    """Returns True if two results are the same: texts, probabilities by label, or states."""
    if isinstance(ours, str):
        return bool(ours == theirs)
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(
            abs(theirs[key] - value) <= tolerance for key, value in ours.items()
        )
    return bool(ours.shape == theirs.shape and np.abs(ours - theirs).max() <= tolerance * np.abs(ours).max())


class _Ours:
    """Pellucid's model, text in and text out."""

    def __init__(self, saved: SavedModel, decode: DecodeConfig) -> None:
        assert saved.tokenizers is not None
        self.model, self.tokenizers, self.decode = saved.model, saved.tokenizers, decode
        self.task = "encode"
        self.front: Any = None
        if isinstance(saved.model, Transformer):
            self.task, self.front = "translate", Translator(saved.model, saved.tokenizers, decode)
        elif isinstance(saved.model, DecoderOnly):
            self.task, self.front = "generate", LanguageModel(saved.model, saved.tokenizers, decode)
        elif isinstance(saved.model, SequenceClassifier):
            labels = saved.labels or tuple(f"LABEL_{i}" for i in range(saved.model.config.num_classes))
            self.task, self.front = "classify", Classifier(saved.model, saved.tokenizers, labels)

    def __call__(self, text: str, beams: int = 1) -> Any:
        if self.task == "translate":
            return self.front.translate([text], beam_size=beams, n_best=1, segment="off", protect="off")[0].text
        if self.task == "generate":
            return text + self.front.generate([text], max_new_tokens=NEW_TOKENS)[0].text
        if self.task == "classify":
            return self.front.classify([text])[0].probabilities
        config = self.model.config
        ids = [config.bos_id, *self.tokenizers.source.encode(text), config.eos_id]
        with torch.inference_mode():
            return self.model(torch.tensor([ids]))[0].numpy()

    def fits(self, text: str) -> bool:
        """Returns True if the model takes a text whole: the call truncates text beyond the model's positions."""
        side = self.tokenizers.target if self.task == "generate" else self.tokenizers.source
        length = len(side.encode(text))
        more = NEW_TOKENS + len(self.decode.source_prefix) if self.task == "generate" else max(2, self.decode.added)
        return length <= self.decode.max_source_length and length + more <= self.model.config.max_positions

    def decode_with_byte_fallback(self, text: str, expected: str, beams: int = 1) -> str:
        """Returns the text of the same output as a tokenizer.json decodes it; `expected` is SentencePiece's text.

        Bytes of invalid UTF-8 have no text: SentencePiece writes U+FFFD for each byte that is invalid, the decoder
        ByteFallback of tokenizer.json for each byte of the run that holds one.
        """
        ids, _ = self._search(text, beams)
        target, place = self.tokenizers.target, len(text) if self.task == "generate" else 0
        for is_bytes, run in groupby(ids, lambda i: bool(_BYTE.fullmatch(target.tokens([i])[0]))):
            run_ids = list(run)
            data = bytes(int(name[3:5], 16) for name in target.tokens(run_ids)) if is_bytes else b""
            with suppress(UnicodeDecodeError):
                data.decode()
                continue
            written = target.decode(run_ids)
            if (place := expected.find(written, place)) < 0:
                return expected
            expected = expected[:place] + "\ufffd" * len(data) + expected[place + len(written) :]
            place += len(data)
        return expected

    def _search(self, text: str, beams: int = 1) -> tuple[list[int], tuple[list[int], ...]]:
        """Returns the ids of the output with `beams` beams, and the ids that the model reads before it: the source's,
        in an encoder-decoder, and the output's prefix.
        """
        model, decode = self.model, replace(self.decode, beam_size=beams, n_best=1)
        assert isinstance(model, Transformer | DecoderOnly), "encoders generate no text"
        config = model.config
        with torch.inference_mode():
            if isinstance(model, Transformer):
                ids = self.tokenizers.source.encode(text)
                before = decode.add_special_ids(ids, config.eos_id), [config.bos_id, *decode.target_prefix]
                return search(model, [ids], decode)[0][0].ids, before
            start = [*decode.source_prefix, *self.tokenizers.target.encode(text)] or [config.bos_id]
            decode = replace(decode, max_length=NEW_TOKENS, source_prefix=())
            return search(model, [start], decode)[0][0].ids, (start,)

    def has_near_tie(self, text: str, tolerance: float) -> bool:
        """Returns True if before a token of its greedy output two tokens are equally probable, within the tolerance."""
        model = self.model
        if not isinstance(model, Transformer | DecoderOnly):
            return False
        written, (*source, start) = self._search(text)
        with torch.inference_mode():
            read = [torch.tensor([ids]) for ids in (*source, [*start, *written])]
            logits = model(*read)[0, len(start) - 1 :]  # (T, V)
            largest = logits.abs().max()
            logits[:, list_suppressed_ids(model.config, self.decode.suppress_tokens)] = -torch.inf
            best = logits.topk(2, dim=-1).values  # (T, 2)
        return bool(((best[:, 0] - best[:, 1]) <= 2 * tolerance * largest).any())
