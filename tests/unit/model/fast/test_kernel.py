"""Of PyTorch's kernels for attention, one is left out on a GPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.backends import cuda
from torch.nn import functional

from pellucid.model.attention import attention

Queued = Callable[..., None]
CPU, GPU = (), ("cpu",)


@pytest.mark.parametrize(("queues", "among_them"), [(CPU, True), (GPU, False)])
@pytest.mark.parametrize("wanted", [True, False])
def test_cudnns_kernel_is_left_out_on_a_gpu(
    queues: tuple[str, ...], among_them: bool, wanted: bool, queued: Queued, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wants it elsewhere has it again behind the call, whether that fails or not."""
    queued(*queues)
    seen: list[bool] = []
    kernel = functional.scaled_dot_product_attention

    def told(*given: Tensor, **options: Any) -> Tensor:
        seen.append(cuda.cudnn_sdp_enabled())
        if len(seen) > 1:
            raise RuntimeError("no kernel")
        return kernel(*given, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", told)
    before = cuda.cudnn_sdp_enabled()
    cuda.enable_cudnn_sdp(wanted)
    try:
        attention(*torch.randn(3, 2, 3, 5, 4).unbind(), fused=True)
        with pytest.raises(RuntimeError, match="no kernel"):
            attention(*torch.randn(3, 2, 3, 5, 4).unbind(), fused=True)
        assert seen == 2 * [wanted and among_them]
        assert cuda.cudnn_sdp_enabled() == wanted
    finally:
        cuda.enable_cudnn_sdp(before)
