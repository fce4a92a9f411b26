"""Conversion between formats, each proved by comparing logits and outputs."""
