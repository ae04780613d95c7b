# The twin of Triton's kernels.
