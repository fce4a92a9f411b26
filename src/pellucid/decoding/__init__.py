"""Ids to ids: greedy, beam and sampled search, forced scoring, and the engine that runs them over many sentences."""
