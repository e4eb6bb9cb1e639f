"""Documents for a search server that takes `_bulk` requests."""
