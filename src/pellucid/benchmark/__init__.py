"""Measures speed on this machine: the machine's peak, and the share of it that a model reaches."""
