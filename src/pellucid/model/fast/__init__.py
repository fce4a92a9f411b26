"""What computes the same as the rest of the model, or as PyTorch, and costs a CPU less.

dropout.py draws fewer random numbers (section 5.4). linear.py multiplies with some rows of its matrix alone where that is all that is
needed, and in half precision where training asks for it. decoder.py takes a step of decoding in fewer calls.
"""
