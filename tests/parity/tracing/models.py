"""Small transformers models with random weights, of the shapes that attention comes in, and a tokenizer for them."""

from dataclasses import dataclass
from typing import Any

import torch

SIZES = {"vocab_size": 60, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
HIDDEN = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
STACKS = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 64, "forced_eos_token_id": None,
}  # fmt: skip
SHARPER = {"t5": 1.0, "marian": 10.0, "bart": 10.0}
FAMILIES = ("bert", "roberta", "gpt2", "llama", "gemma3", "marian", "bart", "t5")


def foreign_model(family: str, attention: str = "sdpa") -> Any:
    """The model of a family, peaked enough that a fault in its attention shows."""
    import transformers as hf

    torch.manual_seed(0)
    grouped = HIDDEN | {"num_key_value_heads": 2}
    made: dict[str, Any] = {
        "bert": lambda: hf.BertModel(hf.BertConfig(**SIZES, **HIDDEN)),
        "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(**SIZES, **HIDDEN)),
        "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**SIZES, n_embd=32, n_layer=2, n_head=4)),
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES, **grouped)),
        # Layers that see four tokens back beside such as see all.
        "gemma3": lambda: hf.Gemma3ForCausalLM(
            hf.Gemma3TextConfig(
                **SIZES, **grouped | {"num_hidden_layers": 3}, head_dim=8, sliding_window=4, query_pre_attn_scalar=20,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            )
        ),
        "marian": lambda: hf.MarianMTModel(
            hf.MarianConfig(**SIZES, **STACKS, decoder_vocab_size=60, decoder_start_token_id=0)
        ),
        "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**SIZES, **STACKS, decoder_start_token_id=2)),
        "t5": lambda: hf.T5ForConditionalGeneration(
            hf.T5Config(**SIZES, d_model=32, d_kv=8, num_layers=2, num_heads=4, d_ff=40, decoder_start_token_id=0)
        ),
    }  # fmt: skip
    model = made[family]().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed" not in name and "shared" not in name and parameter.dim() == 2:
                parameter *= SHARPER.get(family, 4.0)
    if hasattr(model, "generation_config"):
        model.generation_config.max_new_tokens = 6
        model.generation_config.max_length = None
    model.set_attn_implementation(attention)
    return model


@dataclass
class Letters:
    """A tokenizer as transformers' are called: one id a letter, the end token behind each text."""

    unk_token_id: int = 3
    bos_token_id: int = 1
    eos_token_id: int = 2
    pad_token_id: int = 0

    @property
    def all_special_ids(self) -> list[int]:
        """Those four."""
        return [0, 1, 2, 3]

    def __call__(
        self, text: str | None = None, text_pair: str | None = None, text_target: str | None = None, **_: Any
    ) -> dict[str, torch.Tensor]:
        """Ids, mask, and which of two texts each is of."""
        first = self._ids(text if text_target is None else text_target)
        second = self._ids(text_pair)
        ids = torch.tensor([first + second])
        found = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if second:
            found["token_type_ids"] = torch.tensor([[0] * len(first) + [1] * len(second)])
        return found

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        """The letters."""
        return [["<pad>", "<s>", "</s>", "<unk>"][i] if i < 4 else chr(ord("a") + i - 4) for i in ids]

    def _ids(self, text: str | None) -> list[int]:
        return [] if text is None else [*(4 + ord(c) - ord("a") for c in text), self.eos_token_id]
