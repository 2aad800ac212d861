"""The protocol's stages, without any input or output of their own."""
