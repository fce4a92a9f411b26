"""Section 3 of "Attention Is All You Need". Tensors in, tensors out: no files, no text, no training.

Read in the paper's order: transformer.py (figure 1), stacks.py and layers.py (3.1), attention.py (3.2),
feed_forward.py (3.3), embeddings.py (3.4), positions.py (3.5); then masks.py and cache.py.

The letters of the shape comments, everywhere in Pellucid:

    B batch   S source length   T target length   D d_model   H heads   K head width   F d_ff   V vocabulary
    W beam width   N layers     in generic attention: L queries, M keys
"""
