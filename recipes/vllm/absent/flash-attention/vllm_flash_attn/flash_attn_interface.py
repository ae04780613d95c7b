"""The functions of FlashAttention that vLLM names, none of which is there."""

_TOLD = (
    "This build of vLLM has no FlashAttention. Choose another attention backend:"
    " --attention-backend FLASHINFER or TRITON_ATTN, and --mm-encoder-attn-backend TORCH_SDPA for"
    " the images of a model that takes some."
)


def is_fa_version_supported(fa_version, device=None):
    """Say no, whatever the version."""
    return False


def fa_version_unsupported_reason(fa_version, device=None):
    """Return why."""
    return _TOLD


def flash_attn_varlen_func(*args, **kwargs):
    """Explain."""
    raise NotImplementedError(_TOLD)


def get_scheduler_metadata(*args, **kwargs):
    """Explain."""
    raise NotImplementedError(_TOLD)
