"""Hyperparameter sweeps: runs settings and seeds from a file, compares them, and lists all runs of a folder."""
