"""PyTorch's fused attention, without the kernels that are slow for varying lengths."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.backends import cuda

from pellucid.model.fast.gpu import is_gpu


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False
) -> Tensor:
    """Returns PyTorch's `scaled_dot_product_attention`: (B, H, L, K), twice (B, H, M, K) -> (B, H, L, K).

    On a GPU cuDNN's kernel is disabled, which PyTorch prefers in half precision on some GPUs. It is set up again for
    each shape, a fraction of a second every time, and batches of sentences have hundreds of shapes.
    """
    of_cudnn = is_gpu(q.device) and not torch.compiler.is_compiling() and cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    if of_cudnn:
        cuda.enable_cudnn_sdp(False)
    try:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout_p, is_causal=is_causal)
    finally:
        if of_cudnn:
            cuda.enable_cudnn_sdp(True)
