"""Engines beside PyTorch: translators that search by other people's means, and the conversions that they run.

`kept` holds a model's conversion beside it, with its proof; `ctranslate2` is a Translator that runs one.
"""
