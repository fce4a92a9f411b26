"""Judges a learner's own code of the Transformer, and names the mistake.

A part is run on a few small tensors in double precision. Its output is compared with a reference whose choices are
axes, each with named wrong values: equality with a variant names the mistakes. The names are in `mistakes.py`.
"""
