"""Reads runs of elements at once."""
