"""Examines a model or a training: does it compute what it should, and does it go on where it was cut off."""
