"""Corpora to batches: reading, cleaning, shards of ids on disk, batches of a token budget, their order."""
