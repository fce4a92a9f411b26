"""Draws the parts of a Transformer, each from what the code that runs gives."""
