"""XML: records found in damaged markup, parsed in batches, and written with every character."""
