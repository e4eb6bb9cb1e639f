"""Columns of values, and batches of records that have one shape."""
