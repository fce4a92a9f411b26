"""Evaluation of models: reproducible scores, each with its signature and its confidence interval."""
