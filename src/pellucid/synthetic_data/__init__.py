"""Synthetic training data: models translate texts, a record describes the corpus, and runs are trained on it."""
