"""In place of the layers of FlashAttention."""
