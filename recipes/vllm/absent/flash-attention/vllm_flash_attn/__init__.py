"""In place of vLLM's FlashAttention, which this build leaves out.

Parts of vLLM import it whether or not they will call it. So the import works, and a call explains.
"""

from vllm.vllm_flash_attn.flash_attn_interface import (
    fa_version_unsupported_reason,
    flash_attn_varlen_func,
    get_scheduler_metadata,
    is_fa_version_supported,
)

__all__ = [
    "fa_version_unsupported_reason",
    "flash_attn_varlen_func",
    "get_scheduler_metadata",
    "is_fa_version_supported",
]
