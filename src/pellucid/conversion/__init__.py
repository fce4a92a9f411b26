"""Conversion between formats, verified by comparing logits and outputs."""
