"""XML: records found in damaged markup, parsed in batches, and written with every character."""

AMBIGUOUS_CODES = frozenset({"ambiguous-cdata", "ambiguous-comment", "ambiguous-instruction"})
"""Codes of rejects after which an unknown number of records may be missing."""
