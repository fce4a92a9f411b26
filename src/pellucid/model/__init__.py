"""Section 3 of "Attention Is All You Need". Tensors in, tensors out: no files, no text, no training.

The paper, in its order:

    transformer.py      figure 1 and its forward pass
    layers.py           3.1  the two stacks, their layers, the residual sum; norm.py
    attention.py        3.2  equation 1, multi-head attention; masks.py
    feed_forward.py     3.3  equation 2
    embeddings.py       3.4
    positions.py        3.5

Behind it, for whoever needs more than figure 1:

    families.py         one stack alone: EncoderOnly, SequenceClassifier, DecoderOnly; classification.py
    cache.py, steps.py  decoding a token at a time
    relative.py         positions that act within attention: rotary, relative
    initialisation.py   what the weights begin with
    parts.py            modules of your own in place of any of these
    fast/               the same dropout and matrix products as PyTorch's, cheaper on a CPU: skip it when reading

The letters of the shape comments, everywhere in Pellucid:

    B batch   S source length   T target length   D d_model   H heads   K head width   F d_ff   V vocabulary
    W beam width   N layers     in generic attention: L queries, M keys
"""
