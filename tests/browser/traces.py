"""Small traces of real passes, of every family, for the viewer to show."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

import pellucid
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace

SMALL = {"d_model": 32, "num_heads": 4, "dropout": 0.0, "d_ff": 48}


def tokens(texts: Sequence[str]) -> tuple[Token, ...]:
    """Tokens as people write them: "##ing" continues a word, "<s>" and "[SEP]" are special."""
    found: list[Token] = []
    for text in texts:
        special = len(text) > 2 and text[0] + text[-1] in {"<>", "[]"} and " " not in text
        continues = text.startswith("##")
        before = next((token.word for token in reversed(found) if token.word is not None), -1)
        word = None if special else before if continues else before + 1
        found.append(Token(text=text.removeprefix("##"), piece=text, id=len(found) + 3, word=word, special=special))
    return tuple(found)


def renamed(trace: Trace, **names: Sequence[str]) -> Trace:
    """The trace with other tokens, as many as before."""
    given = {name: tokens(texts) for name, texts in names.items()}
    for name, one in given.items():
        assert len(one) == len(trace.sequences[name]), name
    return replace(trace, sequences={**trace.sequences, **given})


def model(kind: str) -> torch.nn.Module:
    """A model with weights large enough that its heads differ."""
    torch.manual_seed(3)
    made: torch.nn.Module
    if kind == "encoder":
        config = pellucid.ModelConfig.encoder(vocab_size=40, num_layers=2, **SMALL)
        made = pellucid.EncoderOnly(config)
    elif kind == "decoder":
        made = pellucid.DecoderOnly(pellucid.ModelConfig.decoder(vocab_size=40, num_layers=2, **SMALL))
    elif kind == "grouped":
        config = pellucid.ModelConfig.decoder(vocab_size=40, num_layers=2, num_kv_heads=2, positions="rotary", **SMALL)
        made = pellucid.DecoderOnly(config)
    else:
        layers = {"num_encoder_layers": 2, "num_decoder_layers": 2, **SMALL}
        positions = {"positions": "relative"} if kind == "relative" else {}
        made = pellucid.Transformer(
            pellucid.ModelConfig(src_vocab_size=40, tgt_vocab_size=40, tie_embeddings="none", **layers, **positions)
        )
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.dim() > 1 and ("qkv_proj" in name or "kv_proj" in name or "q_proj" in name):
                parameter.mul_(3)
            if "bias" in name and parameter.dim() == 2:
                parameter.normal_(std=2)
    return made.eval()


def traced(kind: str) -> Trace:
    """A pass of model(kind) over ids; the encoder's are padded at the end."""
    ids = [5, 9, 12, 30, 7, 21, 11, 2]
    if kind == "encoder":
        return pellucid.trace(model(kind), [*ids, 0, 0, 0])
    if kind in {"decoder", "grouped"}:
        return pellucid.trace(model(kind), ids)
    return pellucid.trace(model(kind), ids, [1, 17, 6, 33, 14])


def translation() -> Trace:
    """A translation whose tokens have names."""
    return renamed(
        traced("translation"),
        src=["A", "brown", "dog", "chas", "##es", "a", "ball", "</s>"],
        tgt=["<s>", "Ein", "Hund", "jag", "##t"],
        out=["Ein", "Hund", "jag", "##t", "</s>"],
    )


def pair() -> Trace:
    """Two texts in one input."""
    named = renamed(traced("encoder"), src=["[CLS]", "how", "are", "you", "[SEP]", "very", "well", "[SEP]"])
    src = tuple(replace(token, segment=int(place > 4)) for place, token in enumerate(named.sequences["src"]))
    return replace(named, sequences={"src": src})


def made(texts: Sequence[str] | int, layers: int = 2, heads: int = 2, width: int = 8, seed: int = 0) -> Trace:
    """A trace of made-up queries and keys over any tokens."""
    names = [f"w{i}" for i in range(texts)] if isinstance(texts, int) else texts
    rng, n = np.random.default_rng(seed), len(names)
    q, k = (rng.normal(scale=1.3, size=(layers, heads, n, width)).astype(np.float32) for _ in range(2))
    src = tuple(Token(text=name, piece=name, id=i, word=i) for i, name in enumerate(names))
    attention = AttentionTrace(name="encoder.self", queries="src", keys="src", q=q, k=k)
    about = {"name": "made up", "family": "encoder", "d_model": heads * width}
    return Trace(model=about, sequences={"src": src}, attentions={"encoder.self": attention}, faithfulness=0.0)
