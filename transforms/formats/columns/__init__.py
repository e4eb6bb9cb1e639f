"""Records that are alike, in columns: their shapes, batches and blocks, and the plans of both."""
