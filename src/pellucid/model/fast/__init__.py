"""Modules that compute what PyTorch's or the plain ones do, and cost a CPU less.

dropout.py draws fewer random numbers (section 5.4). linear.py multiplies with some rows of its matrix alone where that
is all that is needed, and in half precision where training asks for it. products.py has products taken by the faster
library. decoder.py takes a step of decoding in fewer calls. queue.py tells devices that should not be waited for.
"""
