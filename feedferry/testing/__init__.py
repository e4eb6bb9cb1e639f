"""Readers and cutters under mutated inputs; see README.md."""
