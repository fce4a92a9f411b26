"""The Transformer of "Attention Is All You Need" in plain Python, with no import but the standard library's.

    python examples/one_file.py MODEL < lines > translations

MODEL is a run or a model folder of Pellucid whose tokenizer is characters, as that of `pellucid demo` is. The file is a
specification to read, in the paper's order: forward pass, loss, backward pass, Adam, beam search. It is slow.

A matrix is a list of rows, a row a list of floats. A sequence of L tokens is a matrix of L rows. Each layer returns its
output and a function `back`, which takes the gradient of the loss by the output, adds to the gradients of the
parameters, and returns the gradient by the input. There are no batches, so no padding, and no dropout.
"""

import json
import math
import struct
import sys
import unicodedata
from operator import add, mul
from pathlib import Path


class Parameter:
    """A learned matrix, (out, in), or a vector as a matrix of one row; `grad` has the same shape."""

    def __init__(self, rows):
        self.rows = rows
        self.grad = [[0.0] * len(row) for row in rows]


def dot(a, b):
    return sum(map(mul, a, b))


def plus(a, b):
    """Returns the sum of two matrices."""
    return [list(map(add, x, y)) for x, y in zip(a, b, strict=True)]


def concatenate(matrices):
    """Puts matrices side by side."""
    return [[value for row in rows for value in row] for rows in zip(*matrices, strict=True)]


def accumulate(total, row, factor=1.0):
    """Adds `factor * row` to the row `total` in place."""
    for i, value in enumerate(row):
        total[i] += factor * value


# Layers


def linear(x, weight, bias):
    """Returns x W^T + b; `bias` may be None."""
    offset = bias.rows[0] if bias else [0.0] * len(weight.rows)
    y = [[dot(row, w) + b for w, b in zip(weight.rows, offset, strict=True)] for row in x]

    def back(dy):
        dx = [[0.0] * len(row) for row in x]
        for x_row, dy_row, dx_row in zip(x, dy, dx, strict=True):
            for j, d in enumerate(dy_row):
                accumulate(weight.grad[j], x_row, d)
                accumulate(dx_row, weight.rows[j], d)
            if bias:
                accumulate(bias.grad[0], dy_row)
        return dx

    return y, back


def softmax(row):
    top = max(row)
    powers = [math.exp(value - top) for value in row]
    total = sum(powers)
    return [power / total for power in powers]


def attention(q, k, v, causal):
    """Equation 1: softmax(q k^T / sqrt(d_k)) v. With `causal`, a token sees no key after its own, the last one's."""
    scale = 1 / math.sqrt(len(q[0]))
    seen = [len(k) - (len(q) - 1 - i if causal else 0) for i in range(len(q))]
    weights = [softmax([scale * dot(row, key) for key in k[:n]]) for row, n in zip(q, seen, strict=True)]
    columns = list(zip(*v, strict=True))
    y = [[dot(row, column) for column in columns] for row in weights]  # a shorter row ends the sum

    def back(dy):
        dq, dk, dv = ([[0.0] * len(row) for row in rows] for rows in (q, k, v))
        for i, row in enumerate(weights):
            dweights = [dot(dy[i], v[j]) for j in range(len(row))]
            mean = dot(row, dweights)
            for j, weight in enumerate(row):
                dscore = scale * weight * (dweights[j] - mean)  # through the softmax
                accumulate(dv[j], dy[i], weight)
                accumulate(dq[i], k[j], dscore)
                accumulate(dk[j], q[i], dscore)
        return dq, dk, dv

    return y, back


def layer_norm(x, gain, bias, eps):
    """Each row, with its mean subtracted, divided by its standard deviation, times `gain`, plus `bias`."""
    size = len(x[0])
    normed, deviations = [], []
    for row in x:
        mean = sum(row) / size
        deviation = math.sqrt(sum((value - mean) ** 2 for value in row) / size + eps)
        normed.append([(value - mean) / deviation for value in row])
        deviations.append(deviation)
    y = [[n * g + b for n, g, b in zip(row, gain.rows[0], bias.rows[0], strict=True)] for row in normed]

    def back(dy):
        dx = []
        for n, d, deviation in zip(normed, dy, deviations, strict=True):
            accumulate(gain.grad[0], map(mul, d, n))
            accumulate(bias.grad[0], d)
            dn = list(map(mul, d, gain.rows[0]))
            mean, slope = sum(dn) / size, dot(dn, n) / size
            dx.append([(a - mean - b * slope) / deviation for a, b in zip(dn, n, strict=True)])
        return dx

    return y, back


class Transformer:
    """Figure 1 for one sentence at a time. `parameters` are by name, with the projections of q, k and v apart."""

    def __init__(self, config, parameters):
        self.config = config
        self.parameters = parameters

    def linear(self, x, name):
        return linear(x, self.parameters[f"{name}.weight"], self.parameters.get(f"{name}.bias"))

    def norm(self, x, name):
        gain, bias = (self.parameters[f"{name}.{part}"] for part in ("weight", "bias"))
        return layer_norm(x, gain, bias, self.config["norm_eps"])

    def embed(self, ids, name, first=0):
        """Section 3.4 and 3.5: each token's embedding times sqrt(d_model), plus the sinusoids of its position."""
        table, width = self.table(name), self.config["d_model"]
        scale = math.sqrt(width) if self.config["scale_embeddings"] else 1.0
        x = []
        for position, i in enumerate(ids, first):
            angles = [position / 10000 ** (2 * pair / width) for pair in range(width // 2)]
            waves = [wave for angle in angles for wave in (math.sin(angle), math.cos(angle))]
            x.append([scale * e + wave for e, wave in zip(table.rows[i], waves, strict=True)])

        def back(dx):
            for i, row in zip(ids, dx, strict=True):
                accumulate(table.grad[i], row, scale)

        return x, back

    def table(self, name):
        """Returns an embedding or the output projection; tied ones share the first that is stored."""
        names = {"none": [name], "decoder": [name, "tgt_embedding.tokens"]}.get(self.config["tie_embeddings"])
        names = names or ["src_embedding.tokens", "tgt_embedding.tokens", "output_projection"]
        return next(self.parameters[f"{each}.weight"] for each in names if f"{each}.weight" in self.parameters)

    def multi_head(self, x, memory, name, causal=False, cache=None):
        """Section 3.2.2: each head attends with its own part of q, k and v. Returns gradients by x and by memory.

        A search keeps keys and values in a `cache` of its text: of the memory, and of the earlier tokens.
        """
        q, back_q = self.linear(x, f"{name}.q_proj")
        if cache and name in cache and not causal:
            (k, v), back_k, back_v = cache[name], None, None
        else:
            k, back_k = self.linear(memory, f"{name}.k_proj")
            v, back_v = self.linear(memory, f"{name}.v_proj")
        if cache is not None:
            if causal:
                before = cache.get(name, ([], []))
                k, v = before[0] + k, before[1] + v
            cache[name] = k, v
        size = len(q[0]) // self.config["num_heads"]
        parts = [slice(start, start + size) for start in range(0, len(q[0]), size)]
        heads = [attention(*([row[part] for row in rows] for rows in (q, k, v)), causal) for part in parts]
        y, back_out = self.linear(concatenate(head for head, _ in heads), f"{name}.out_proj")

        def back(dy):
            djoined = back_out(dy)
            gradients = [b([row[part] for row in djoined]) for (_, b), part in zip(heads, parts, strict=True)]
            dq, dk, dv = map(concatenate, zip(*gradients, strict=True))
            return back_q(dq), plus(back_k(dk), back_v(dv))

        return y, back

    def self_attention(self, x, name, causal, cache):
        y, back = self.multi_head(x, x, name, causal, cache)
        return y, lambda dy: plus(*back(dy))

    def feed_forward(self, x, name):
        """Equation 2: max(0, x W1 + b1) W2 + b2."""
        inner, back_up = self.linear(x, f"{name}.up_proj")
        y, back_down = self.linear([[max(0.0, value) for value in row] for row in inner], f"{name}.down_proj")

        def back(dy):
            dinner = back_down(dy)
            passed = [
                [d if value > 0 else 0.0 for d, value in zip(*rows, strict=True)]
                for rows in zip(dinner, inner, strict=True)
            ]
            return back_up(passed)

        return y, back

    def add(self, x, name, sublayer):
        """Section 3.1: LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x)) with norm = "pre"."""
        if self.config["norm"] == "pre":
            normed, back_norm = self.norm(x, name)
            y, back_sublayer = sublayer(normed)
            return plus(x, y), lambda d: plus(d, back_norm(back_sublayer(d)))
        y, back_sublayer = sublayer(x)
        normed, back_norm = self.norm(plus(x, y), name)

        def back(d):
            d = back_norm(d)
            return plus(d, back_sublayer(d))

        return normed, back

    def stack(self, x, side, memory=None, dmemory=None, cache=None):
        """The encoder, or with a memory the decoder, whose `back` adds to `dmemory`."""

        def attend_to_memory(rows, name):
            y, back = self.multi_head(rows, memory, name, cache=cache)

            def back_rows(dy):
                drows, d = back(dy)
                dmemory[:] = plus(dmemory, d)
                return drows

            return y, back_rows

        backs = []
        for n in range(self.config[f"num_{side}_layers"]):
            layer = f"{side}.layers.{n}"
            sublayers = [("self_attn", lambda x, name: self.self_attention(x, name, memory is not None, cache))]
            sublayers += [("cross_attn", attend_to_memory)] if memory is not None else []
            for name, sublayer in [*sublayers, ("feed_forward", self.feed_forward)]:
                place = f"{layer}.{name}"
                x, back = self.add(x, f"{place}_norm", lambda x, f=sublayer, place=place: f(x, place))
                backs.append(back)
        if f"{side}.norm.weight" in self.parameters:
            x, back = self.norm(x, f"{side}.norm")
            backs.append(back)
        return x, chain(backs)

    def encode(self, src):
        """Source ids -> the memory, a row per token."""
        x, back_embedding = self.embed(src, "src_embedding.tokens")
        memory, back_stack = self.stack(x, "encoder")
        return memory, lambda d: back_embedding(back_stack(d))

    def decode(self, tgt, memory, cache=None):
        """Target ids, the start token first -> logits of each next token. `back` returns the memory's gradient.

        With a `cache` the tokens before the last were read by earlier calls: the logits are those after the last.
        """
        dmemory = [[0.0] * len(row) for row in memory]
        first = 0 if cache is None else len(tgt) - 1
        x, back_embedding = self.embed(tgt[first:], "tgt_embedding.tokens", first)
        states, back_stack = self.stack(x, "decoder", memory, dmemory, cache)
        bias = self.parameters.get("output_projection.bias")
        logits, back_logits = linear(states, self.table("output_projection"), bias)

        def back(dlogits):
            back_embedding(back_stack(back_logits(dlogits)))
            return dmemory

        return logits, back


def chain(backs):
    """Returns the gradient's way back through layers that followed each other."""

    def back(d):
        for each in reversed(backs):
            d = each(d)
        return d

    return back


# Section 5: training


def loss(model, src, tgt, smoothing=0.0):
    """Returns the cross-entropy of a sentence, summed over its target tokens, and adds its gradients (section 5.4).

    `src` and `tgt` are ids with the end token. The decoder reads `tgt` shifted right by one, the start token first.
    """
    memory, back_encoder = model.encode(src)
    logits, back_decoder = model.decode([model.config["bos_id"], *tgt[:-1]], memory)
    total, dlogits = 0.0, []
    for row, target in zip(logits, tgt, strict=True):
        probs = softmax(row)
        wanted = [smoothing / len(row)] * len(row)
        wanted[target] += 1 - smoothing
        total -= dot(wanted, log_softmax(row))
        dlogits.append([p - w for p, w in zip(probs, wanted, strict=True)])
    back_encoder(back_decoder(dlogits))
    return total


def log_softmax(row):
    top = max(row)
    total = top + math.log(sum(math.exp(value - top) for value in row))
    return [value - total for value in row]


def learning_rate(step, d_model, warmup_steps=4000):
    """Equation 3: a linear rise, then a fall with the square root of the step."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


class Adam:
    """Section 5.3, with the paper's constants."""

    def __init__(self, parameters, beta1=0.9, beta2=0.98, eps=1e-9):
        self.parameters = [(p, Parameter(p.grad).grad, Parameter(p.grad).grad) for p in parameters]  # zeros
        self.beta1, self.beta2, self.eps, self.steps = beta1, beta2, eps, 0

    def step(self, rate):
        """Moves each number against its gradient, and sets the gradients to 0."""
        self.steps += 1
        unbias1, unbias2 = 1 - self.beta1**self.steps, 1 - self.beta2**self.steps
        for parameter, means, squares in self.parameters:
            for row, grad, mean, square in zip(parameter.rows, parameter.grad, means, squares, strict=True):
                for i, g in enumerate(grad):
                    mean[i] = self.beta1 * mean[i] + (1 - self.beta1) * g
                    square[i] = self.beta2 * square[i] + (1 - self.beta2) * g * g
                    row[i] -= rate * (mean[i] / unbias1) / (math.sqrt(square[i] / unbias2) + self.eps)
                    grad[i] = 0.0


def train_step(model, adam, pairs, rate, smoothing=0.0):
    """Trains on some pairs of ids. Returns the mean loss per target token."""
    total, tokens = sum(loss(model, src, tgt, smoothing) for src, tgt in pairs), sum(len(tgt) for _, tgt in pairs)
    for parameter in model.parameters.values():
        parameter.grad[:] = [[value / tokens for value in row] for row in parameter.grad]
    adam.step(rate)
    return total / tokens


# Section 6.1: beam search


def beam_search(model, src, beam_size, length_penalty, limit):
    """Returns the ids of the best translation, by log-probability / length ** length_penalty; the end token counts.

    Of the 2 W best continuations the first W that do not end stay live; of the first W, those that end are finished.
    """
    bos, eos, pad = (model.config[name] for name in ("bos_id", "eos_id", "pad_id"))
    memory, _ = model.encode(src)
    live, finished = [(0.0, [], {})], []
    for length in range(1, limit + 2):
        found = []
        for score, ids, cache in live:
            cache = dict(cache)
            log_probs = log_softmax(model.decode([bos, *ids], memory, cache)[0][-1])
            tokens = [eos] if length > limit else range(len(log_probs))
            found += [(score + log_probs[t], ids, t, cache) for t in tokens if t not in (bos, pad)]
        found = sorted(found, key=lambda each: -each[0])[: 2 * beam_size]
        finished += [
            (score / length**length_penalty, ids) for score, ids, token, _ in found[:beam_size] if token == eos
        ]
        live = [(score, [*ids, token], cache) for score, ids, token, cache in found if token != eos][:beam_size]
        # A log-probability only falls, so the best live text ranks at most as high as if it grew to the limit for free.
        longest = length if len(finished) >= beam_size or length_penalty <= 0 else limit + 1
        reachable = live[0][0] / longest**length_penalty if live else -math.inf
        if finished and (beam_size == 1 or max(finished)[0] >= reachable):
            break
    return max(finished)[1]


# Files


NEEDED = {
    "num_kv_heads": None, "head_dim": None, "embedding_norm": False, "norm_type": "layer", "positions": "sinusoidal",
    "activation": "relu", "gated_feed_forward": False, "gated": False, "qk_norm": False, "num_segments": 0,
    "bias": True, "num_classes": 0,
}  # fmt: skip
"""The settings of the paper's model; other families are in Pellucid itself."""
KINDS = {"F64": ("d", 8), "F32": ("f", 4), "F16": ("e", 2)}


def load(folder):
    """Returns the model of a folder, its tokens by id, and its settings of decoding."""
    described = json.loads((folder / "pellucid.json").read_text(encoding="utf-8"))
    config, tokenizer = described["model"], described["tokenizer"]
    for name, value in NEEDED.items():
        if config.get(name, value) != value:  # `gated` is a name of earlier versions
            raise ValueError(f"`{name}` is {config[name]!r} in {folder}; this file reads models with {value!r}")
    files = tokenizer["files"]
    if tokenizer["kind"] != "characters" or list(files) != ["tokenizer"]:
        raise ValueError(f"the tokenizer of {folder} is {tokenizer['kind']}; this file reads joint characters")
    vocabulary = json.loads((folder / files["tokenizer"]).read_text(encoding="utf-8"))
    if vocabulary["byte_fallback"] or vocabulary["lowercase"]:
        raise ValueError(f"the vocabulary of {folder} has byte_fallback or lowercase; this file reads none of both")
    return Transformer(config, load_parameters(folder / "model.safetensors")), vocabulary["tokens"], described["decode"]


def load_parameters(path):
    """Reads a safetensors file: the length of its header, the header as JSON, then the numbers of all tensors."""
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    parameters = {}
    for name, about in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        letter, size = KINDS[about["dtype"]]
        first, last = about["data_offsets"]
        numbers = struct.unpack(f"<{(last - first) // size}{letter}", data[start + first : start + last])
        width = about["shape"][-1]
        rows = [list(numbers[i : i + width]) for i in range(0, len(numbers), width)]
        parameters |= split_projections(name, rows)
    return {name: Parameter(rows) for name, rows in parameters.items()}


def split_projections(name, rows):
    """Returns the parts of a packed projection: W^Q, W^K and W^V lie in `qkv_proj` one after the other."""
    if "qkv_proj" not in name:
        return {name: rows}
    flat = rows[0] if name.endswith("bias") else rows
    size = len(flat) // 3
    parts = [flat[place * size : (place + 1) * size] for place in range(3)]
    return {
        name.replace("qkv", letter): [p] if p is not flat and flat is rows[0] else p
        for letter, p in zip("qkv", parts, strict=True)
    }


def translate(model, tokens, decode, line):
    """Returns the translation of a line of text."""
    ids = {token: i for i, token in enumerate(tokens) if i > 3}  # 0 to 3 are <pad>, <s>, </s>, <unk>
    invisible = dict.fromkeys(map(ord, "\xad\u200b\u2060\ufeff"))
    text = unicodedata.normalize("NFC", line.translate({ord("▁"): " ", **invisible}))
    src = [ids.get(character, 3) for character in " ".join(text.split())]
    room = model.config["max_positions"] - 1
    if not src or len(src) > room:
        return ""
    limit = min(decode["max_length"] or 2 * len(src) + 50, room)
    found = beam_search(model, [*src, model.config["eos_id"]], decode["beam_size"], decode["length_penalty"], limit)
    return "".join(tokens[i] for i in found if i > 2)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/one_file.py MODEL < lines")
    try:
        loaded = load(Path(sys.argv[1]))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {error}")
    for line in sys.stdin:
        print(translate(*loaded, line), flush=True)


if __name__ == "__main__":
    main()
