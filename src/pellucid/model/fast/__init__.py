"""Modules equivalent to PyTorch's or to the reference ones, but faster on a CPU.

dropout.py generates fewer random numbers (section 5.4). linear.py can multiply with a subset of its matrix's rows, and
in half precision in training. products.py computes matrix products by the faster library. gpu.py identifies
asynchronous devices, which should rarely be synchronized. kernel.py is PyTorch's fused attention.
"""
