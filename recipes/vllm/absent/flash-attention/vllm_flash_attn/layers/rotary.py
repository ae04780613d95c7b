"""Rotary embedding, which vLLM takes from FlashAttention on NVIDIA cards: here by its own code."""


def apply_rotary_emb(x, cos, sin, interleaved=False):
    """Return ``x`` turned by the angles, computed by torch's operators."""
    from vllm.model_executor.layers.rotary_embedding.common import ApplyRotaryEmb

    return ApplyRotaryEmb.forward_static(x, cos, sin, is_neox_style=not interleaved)
