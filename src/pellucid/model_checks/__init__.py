"""Checks a model or a training: does it compute correctly, and does it resume exactly after an interruption."""
