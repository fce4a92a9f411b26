"""Greedy translation with ONNX Runtime: no torch, no Pellucid.

    pip install onnxruntime sentencepiece numpy
    pellucid convert RUN FOLDER --to onnx
    python translate_onnx.py FOLDER < lines > translations

FOLDER holds encoder.onnx, decoder.onnx, config.json and the SentencePiece models of the tokenizer.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import sentencepiece

ESCAPE, SPACE = "\x1b", "▁"  # SentencePiece would read ▁ as a space: Pellucid's own models see it escaped


def outputs(session: onnxruntime.InferenceSession, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a graph gives, by name."""
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feed), strict=True))


class Translator:
    """A folder that `pellucid convert --to onnx` wrote."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.model, self.decode = config["model"], config["decode"]
        kind, files = config["tokenizer"]["kind"], config["tokenizer"]["files"]
        if kind not in ("bpe", "unigram", "sentencepiece"):
            sys.exit(f"this script reads SentencePiece models, not a tokenizer of the kind {kind}")
        self.source, self.target = (
            sentencepiece.SentencePieceProcessor(model_file=str(folder / files.get(side, files.get("tokenizer"))))
            for side in ("source", "target")
        )
        self.escapes = kind != "sentencepiece" and self.source.is_byte(self.source.piece_to_id("<0x00>"))
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(str(folder / f"{n}coder.onnx")) for n in ("en", "de")
        )
        self.never = [i for i in (self.model["pad_id"], self.model["bos_id"]) if i not in (None, self.model["eos_id"])]

    def translate(self, line: str) -> str:
        """The most probable token at each step, until the end token. What the model has no positions for is cut off."""
        text = line.replace(ESCAPE, ESCAPE * 2).replace(SPACE, f"{ESCAPE}_") if self.escapes else line
        ids = self.source.encode(text)
        end = [self.model["eos_id"]] if self.decode.get("source_end", True) else []
        before, after = self.decode["source_prefix"], [*end, *self.decode["source_suffix"]]
        source = [*before, *ids[: self.model["max_positions"] - len(before) - len(after)], *after]
        memory = outputs(self.encoder, {"src": np.array([source], dtype=np.int64)})
        heads = self.model["num_kv_heads"] or self.model["num_heads"]
        width = self.model["head_dim"] or self.model["d_model"] // self.model["num_heads"]
        names = [given.name for given in self.decoder.get_inputs() if given.name.startswith("past_")]
        past = dict.fromkeys(names, np.zeros((1, heads, 0, width), dtype=np.float32))
        tokens = [self.model["bos_id"], *self.decode["target_prefix"]]
        written: list[int] = []
        limit = min(self.decode["max_length"] or 2 * len(ids) + 50, self.model["max_positions"] - len(tokens))
        for place in range(len(tokens) + limit):
            token = (tokens + written)[place]
            found = outputs(self.decoder, {"tokens": np.array([[token]], dtype=np.int64), **memory, **past})
            logits = found.pop("logits")[0]
            past = {f"past_{name}": tensor for name, tensor in found.items()}
            if place + 1 < len(tokens):
                continue
            logits[[*self.never, *self.decode["suppress"]]] = -np.inf
            if (best := int(logits.argmax())) == self.model["eos_id"]:
                break
            written.append(best)
        text = self.target.decode(written[:limit])
        return text.replace(f"{ESCAPE}_", SPACE).replace(ESCAPE * 2, ESCAPE) if self.escapes else text


if __name__ == "__main__":
    translator = Translator(Path(sys.argv[1]))
    for line in sys.stdin:
        print(translator.translate(line.rstrip("\n")) if line.strip() else "")
