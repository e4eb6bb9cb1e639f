"""Documents of a search index with the fields of a decision, whatever bodies carry them."""
