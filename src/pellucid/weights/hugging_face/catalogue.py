"""The supported families, by their `model_type` in config.json."""

from pellucid.weights.hugging_face.bart import BART, M2M_100, MARIAN, MBART, PEGASUS
from pellucid.weights.hugging_face.bert import BERT, DISTILBERT, ROBERTA
from pellucid.weights.hugging_face.family import Family
from pellucid.weights.hugging_face.gpt2 import GPT2
from pellucid.weights.hugging_face.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from pellucid.weights.hugging_face.t5 import MT5, T5

FAMILIES: dict[str, Family] = {
    "bart": BART,
    "bert": BERT,
    "camembert": ROBERTA,
    "distilbert": DISTILBERT,
    "gpt2": GPT2,
    "llama": LLAMA,
    "m2m_100": M2M_100,  # and NLLB
    "marian": MARIAN,
    "mbart": MBART,
    "mistral": MISTRAL,
    "mt5": MT5,
    "pegasus": PEGASUS,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "roberta": ROBERTA,
    "t5": T5,
    "xlm-roberta": ROBERTA,
}
