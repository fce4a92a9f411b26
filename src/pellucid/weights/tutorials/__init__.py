"""The weights of five tutorials that build the Transformer by hand.

layouts      how each names its parts, and what its text decides
files        what somebody saved
source       its tensors, each asked for by name and shape
folding      arithmetic of theirs that ours expresses in its weights
reading      attentions, norms and projections
slips        what a text computes otherwise than it means
importing    the model
"""
