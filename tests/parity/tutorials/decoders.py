"""Language models with the parameter names of code that many follow, each with its own arithmetic."""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(B, H, T, K) three times: causal attention by hand."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    hidden = torch.ones(q.size(-2), q.size(-2)).triu(1).bool()
    return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v


def split(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


class Norm(nn.Module):
    """A layer norm whose bias may be left out, and whose parts may have other names."""

    def __init__(self, width: int, bias: bool = True, names: tuple[str, str] = ("weight", "bias")) -> None:
        super().__init__()
        self.names = names if bias else names[:1]
        for name, value in zip(self.names, (1.0, 0.0), strict=False):
            self.register_parameter(name, nn.Parameter(torch.full((width,), value)))

    def forward(self, x: Tensor) -> Tensor:
        y = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        parts = [getattr(self, name) for name in self.names]
        return y * parts[0] + parts[1] if len(parts) > 1 else y * parts[0]


class Turned(nn.Module):
    """transformers' Conv1D: a linear module whose matrix is (in, out)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * inputs**-0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class PackedAttention(nn.Module):
    def __init__(self, width: int, heads: int, linear: Callable[[int, int], nn.Module], saved_mask: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = linear(width, 3 * width), linear(width, width)
        if saved_mask:
            self.register_buffer("bias", torch.ones(1, 1, saved_mask, saved_mask).tril())

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(part, self.heads) for part in self.c_attn(x).chunk(3, dim=-1))
        return self.c_proj(join(attend(q, k, v)))


class PackedInner(nn.Module):
    def __init__(self, width: int, linear: Callable[[int, int], nn.Module], approximate: str) -> None:
        super().__init__()
        self.c_fc, self.c_proj, self.approximate = linear(width, 4 * width), linear(4 * width, width), approximate

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate=self.approximate))


class NanoBlock(nn.Module):
    def __init__(
        self, width: int, heads: int, bias: bool, linear: Callable[[int, int], nn.Module], approximate: str, mask: int
    ) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = Norm(width, bias), Norm(width, bias)
        self.attn, self.mlp = PackedAttention(width, heads, linear, mask), PackedInner(width, linear, approximate)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    """nanoGPT; `turned`: the names of transformers' GPT-2, whose matrices are (in, out) and whose GELU is tanh's."""

    def __init__(
        self, words: int, n: int, width: int, heads: int, length: int = 40, *, bias: bool = True, turned: bool = False,
        tied: bool = True, saved_mask: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        linear: Callable[[int, int], nn.Module] = Turned if turned else lambda i, o: nn.Linear(i, o, bias=bias)
        approximate, mask = "tanh" if turned else "none", length if saved_mask else 0
        blocks = (NanoBlock(width, heads, bias, linear, approximate, mask) for _ in range(n))
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(words, width),
                "wpe": nn.Embedding(length, width),
                "h": nn.ModuleList(blocks),
                "ln_f": Norm(width, bias),
            }
        )
        self.lm_head = nn.Linear(width, words, bias=False)
        if tied:
            self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, ids: Tensor) -> Tensor:
        parts = self.transformer
        x = parts["wte"](ids) + parts["wpe"](torch.arange(ids.size(1)))
        for block in parts["h"]:
            x = block(x)
        return self.lm_head(parts["ln_f"](x))


class OneHead(nn.Module):
    def __init__(self, width: int, head_width: int, length: int) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(width, head_width, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.ones(length, length).tril())

    def forward(self, x: Tensor) -> Tensor:
        return attend(self.query(x), self.key(x), self.value(x))


class ManyHeads(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(OneHead(width, width // heads, length) for _ in range(heads))
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))


class LectureInner(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class LectureBlock(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.sa, self.ffwd = ManyHeads(width, heads, length), LectureInner(width)
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.sa(self.ln1(x))
        return x + self.ffwd(self.ln2(x))


class Lecture(nn.Module):
    """The lecture's model: a module for each head, ReLU, an output with a bias."""

    def __init__(self, words: int, n: int, width: int, heads: int, length: int = 40) -> None:
        super().__init__()
        self.token_embedding_table, self.position_embedding_table = (
            nn.Embedding(words, width),
            nn.Embedding(length, width),
        )
        self.blocks = nn.Sequential(*(LectureBlock(width, heads, length) for _ in range(n)))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token_embedding_table(ids) + self.position_embedding_table(torch.arange(ids.size(1)))
        return self.lm_head(self.ln_f(self.blocks(x)))


class BookAttention(nn.Module):
    def __init__(self, width: int, heads: int, length: int, qkv_bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(width, width, bias=qkv_bias) for _ in range(3))
        self.out_proj = nn.Linear(width, width)
        self.register_buffer("mask", torch.ones(length, length).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(linear(x), self.heads) for linear in (self.W_query, self.W_key, self.W_value))
        return self.out_proj(join(attend(q, k, v)))


class Tanh(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class BookInner(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), Tanh(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class BookBlock(nn.Module):
    def __init__(self, width: int, heads: int, length: int, qkv_bias: bool) -> None:
        super().__init__()
        self.att, self.ff = BookAttention(width, heads, length, qkv_bias), BookInner(width)
        self.norm1, self.norm2 = (Norm(width, names=("scale", "shift")) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.att(self.norm1(x))
        return x + self.ff(self.norm2(x))


class Book(nn.Module):
    """The model of "Build a Large Language Model (From Scratch)"."""

    def __init__(self, words: int, n: int, width: int, heads: int, length: int = 40, *, qkv_bias: bool = False) -> None:
        super().__init__()
        self.tok_emb, self.pos_emb = nn.Embedding(words, width), nn.Embedding(length, width)
        self.trf_blocks = nn.Sequential(*(BookBlock(width, heads, length, qkv_bias) for _ in range(n)))
        self.final_norm = Norm(width, names=("scale", "shift"))
        self.out_head = nn.Linear(width, words, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok_emb(ids) + self.pos_emb(torch.arange(ids.size(1)))
        return self.out_head(self.final_norm(self.trf_blocks(x)))


class Waves(nn.Module):
    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        angle = torch.arange(length)[:, None] * rate
        self.register_buffer("pe", torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, None])


class TorchLanguageModel(nn.Module):
    """PyTorch's language-model tutorial: an encoder of torch.nn under a causal mask, sequences first.

    `names` are those of the embedding and of the output: `encoder` and `decoder` in one version, `embedding` and
    `linear` in the other.
    """

    def __init__(
        self, words: int, n: int, width: int, heads: int, names: Sequence[str] = ("embedding", "linear"),
        norm_first: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.names = names
        self.pos_encoder = Waves(width, 60)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.0, norm_first=norm_first)
        self.transformer_encoder = nn.TransformerEncoder(layer, n, enable_nested_tensor=False)
        self.add_module(names[0], nn.Embedding(words, width))
        self.add_module(names[1], nn.Linear(width, words))

    def forward(self, ids: Tensor) -> Tensor:
        embedding, output = (getattr(self, name) for name in self.names)
        x = embedding(ids.t()) * math.sqrt(embedding.embedding_dim)
        x = x + self.pos_encoder.pe[: x.size(0)]
        mask = torch.full((x.size(0), x.size(0)), -math.inf).triu(1)
        return output(self.transformer_encoder(x, mask)).transpose(0, 1)


class TorchExample(nn.Transformer):
    """PyTorch's example of word-level language models: `nn.Transformer` whose decoder is the output."""

    def __init__(self, words: int, n: int, width: int, heads: int) -> None:
        super().__init__(width, heads, num_encoder_layers=n, dim_feedforward=2 * width, dropout=0.0)
        self.pos_encoder = Waves(width, 60)
        self.input_emb = nn.Embedding(words, width)
        self.decoder = nn.Linear(width, words)

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        x = self.input_emb(ids.t()) * math.sqrt(self.input_emb.embedding_dim)
        x = x + self.pos_encoder.pe[: x.size(0)]
        mask = torch.full((x.size(0), x.size(0)), -math.inf).triu(1)
        return self.decoder(self.encoder(x, mask=mask)).transpose(0, 1)
