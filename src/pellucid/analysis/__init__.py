"""Reads what attention weights tell: alignments, flow, statistics, and what a head is worth."""
