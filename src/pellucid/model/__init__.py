"""Section 3 of "Attention Is All You Need". Tensors in, tensors out: no files, no text, no training.

config/model.py has every size and option; the defaults are the paper's base model, except for separate vocabularies.
docs/concepts/paper-map.md maps each section of the paper to its function and its test. The paper, in its order:

    transformer.py      figure 1 and its forward pass
    layers.py           3.1  the two stacks, their layers, the residual sum; norm.py
    attention.py        3.2  equation 1, multi-head attention; masks.py
    feed_forward.py     3.3  equation 2
    embeddings.py       3.4
    positions.py        3.5

Layers take sizes and modules; their `from_config` reads these from a config. Used there, but not in the paper:

    build.py                makes the embeddings and the stacks from a config, with Pellucid's modules or custom ones
    parts.py                the factories of custom modules, and their checks
    initialisation.py       the initial weights
    checks.py               the errors for arguments that a model cannot take
    observers.py            calls observers at each attention() and each residual sum: for traces
    fast/                   Linear and Dropout: PyTorch's, in less time on a CPU

Beyond figure 1:

    families.py             one stack: EncoderOnly, SequenceClassifier (classification.py), DecoderOnly; build_model
    incremental.py          decoding one token per call; cache.py. In a search decoding/fast_step.py computes this step
    attention_positions.py  positions that act within attention: rotary, relative

The letters of the shape comments, everywhere in Pellucid:

    B batch   S source length   T target length   D d_model   H heads   K head width (the paper's d_k and d_v)   F d_ff
    V vocabulary   C classes   W beam width   N layers     G heads of keys
    L any length; in attention L queries, M keys
"""
