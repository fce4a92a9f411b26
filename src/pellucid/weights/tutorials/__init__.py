"""The weights of five tutorials that build the Transformer by hand.

layouts      the names of the parts and the fixed settings of each
files        saved state dicts
source       the tensors of a state dict, by name and shape
folding      arithmetic of the tutorials, folded into the weights
reading      attentions, norms and projections
slips        errors in a tutorial's code
importing    the model
"""
