"""Whole jobs that join the areas: prepare a corpus, train and resume, show a demo."""
