"""The other side: random models of transformers, saved as their users save them, and what both sides compute."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid.model.families import DecoderOnly, Model
from pellucid.model.transformer import Transformer
from pellucid.weights import from_hugging_face


def random_outside(name: str, **settings: Any) -> Any:
    """A model of transformers with random weights, none of them zero or one, so that a forgotten one shows.

    `name` is its class; its configuration's class is found by the model. Attention is the plain one.
    """
    import transformers

    kind = getattr(transformers, name)
    model = kind(kind.config_class(**settings, attn_implementation="eager")).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                spread = 0.2 if parameter.dim() == 1 else parameter.size(-1) ** -0.5
                parameter.add_(torch.randn_like(parameter), alpha=spread)
    return model


def opened(model: Any, folder: Path) -> Any:
    """Our model of a folder that `model` was saved to."""
    model.save_pretrained(folder)
    ours, tokenizer = from_hugging_face(folder)
    assert tokenizer is None
    assert not ours.training
    return ours


def close(ours: Tensor, theirs: Tensor, where: Tensor | None = None) -> None:
    """Within 1e-5 of the largest value (at least of 1), at the positions (B, L) of `where`."""
    assert ours.shape == theirs.shape
    ours, theirs = (ours, theirs) if where is None else (ours[where], theirs[where])
    assert torch.isfinite(theirs).all()
    assert theirs.abs().max() > 1e-2
    difference = (ours - theirs).abs().max().item()
    assert difference <= 1e-5 * max(1.0, theirs.abs().max().item()), difference


def padded_ids(vocab_size: int, lengths: list[int], pad_id: int, first: int = 3) -> tuple[Tensor, Tensor]:
    """Random words, padded on the right, and which are real: (B, L), (B, L)."""
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(first, vocab_size, real.shape)
    ids[ids == pad_id] = (pad_id + 1) % vocab_size or first
    return ids.masked_fill(~real, pad_id), real


@torch.inference_mode()
def greedy(model: Model, prompt: Tensor, length: int, banned: int | None = None) -> list[int]:
    """The most probable tokens after a prompt (1, T) (a decoder's) or of a source (1, S), by decoding with the cache.

    Each step's logits are compared with those of decoding without one.
    """
    assert isinstance(model, Transformer | DecoderOnly)
    cache = model.start(prompt)
    seen = torch.tensor([[model.config.bos_id]]) if isinstance(model, Transformer) else prompt
    found: list[int] = []
    for _ in range(length):
        logits = model.step(seen[:, -1:], cache)[:, -1]
        whole = model(prompt, seen) if isinstance(model, Transformer) else model(seen)
        close(logits, whole[:, -1])
        if banned is not None:
            logits[:, banned] = -torch.inf
        found.append(int(logits.argmax()))
        if found[-1] == model.config.eos_id:
            break
        seen = torch.cat([seen, torch.tensor([[found[-1]]])], dim=1)
    return found


def greedy_outside(model: Any, prompt: Tensor, length: int, **settings: Any) -> list[int]:
    """What transformers' own generate writes; `settings` come on top of the model's own."""
    with torch.inference_mode():
        ids = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=length,
            num_beams=1,
            do_sample=False,
            use_cache=False,
            **settings,
        )[0].tolist()
    start = 1 if model.config.is_encoder_decoder else prompt.size(1)
    return [int(token) for token in ids[start:]]
