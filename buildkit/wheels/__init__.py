"""The bytes of a wheel: read, rewritten, and the GPU code in them listed."""
