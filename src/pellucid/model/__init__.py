"""Section 3 of "Attention Is All You Need". Tensors in, tensors out: no files, no text, no training.

config/model.py has every size and option; the defaults are the paper's base model, but for separate vocabularies.
docs/concepts/paper-map.md leads from each section of the paper to its function and its test. The paper, in its order:

    transformer.py      figure 1 and its forward pass
    layers.py           3.1  the two stacks, their layers, the residual sum; norm.py
    attention.py        3.2  equation 1, multi-head attention; masks.py
    feed_forward.py     3.3  equation 2
    embeddings.py       3.4
    positions.py        3.5

Behind it, for whoever needs more than figure 1:

    families.py         one stack alone: EncoderOnly, SequenceClassifier (classification.py), DecoderOnly; build_model
    cache.py, steps.py  decoding a token at a time
    relative.py         positions that act within attention: rotary, relative
    initialisation.py   what the weights begin with
    parts.py            makers of modules of your own: `parts.make` makes one of yours, or else of ours
    checks.py           refuses what a model cannot take
    observing.py        lets others see each call of attention()
    fast/               Linear and Dropout: PyTorch's, for less of a CPU's time. `some_rows` uses a part of a matrix

The letters of the shape comments, everywhere in Pellucid:

    B batch   S source length   T target length   D d_model   H heads   K head width (the paper's d_k and d_v)   F d_ff
    V vocabulary   C classes   W beam width   N layers     G heads of keys
    L any length; in attention L queries, M keys
"""
