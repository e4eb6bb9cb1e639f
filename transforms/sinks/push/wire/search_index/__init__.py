"""What all search servers have in common: narrowing before a run, feeds, lists and probes."""
