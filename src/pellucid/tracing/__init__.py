"""Traces: what each attention of a pass works on, recorded where the model computes it, and kept in a file."""
