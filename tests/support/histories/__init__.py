"""A simulation of the nights of a source, its job and its index, and who may see what."""
