"""The compiled engine: encoder, decoder, greedy and beam search as functions that numba compiles for the processor.

`vectors` writes the inner loops as LLVM instructions, `layers` and `passes` the model of them, `search` the searches.
`layout` and `weights` turn a PyTorch model into arrays, and decide which models are known; `compiling` compiles once
per machine. `engine` joins them. Only `compiling` imports the modules that import numba, in functions.
"""
