"""What formats hold: rules that adapt a record, refusals, and values with a known form."""
