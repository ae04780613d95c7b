"""In place of FlashMLA's interface: vLLM imports it only beside the library ``_flashmla_C``."""

raise ImportError("This build of vLLM has no FlashMLA, which has no kernels for this GPU.")
