"""Plots parts of a Transformer from the output of the code that runs in models and training."""
