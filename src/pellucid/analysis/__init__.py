"""Analyzes attention: alignments, flow, statistics, and the effect of each head."""
