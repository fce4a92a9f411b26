"""Ids to ids: searches over a model's step function, forced scores, and the batches in which many texts go through."""
