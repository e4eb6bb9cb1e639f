"""Blocks of records of which only elements are alike."""
