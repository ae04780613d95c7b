"""Tools: which interpreter, compiler and CUDA toolkit a build uses, and its environment."""
