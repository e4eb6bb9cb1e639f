"""Documents of a search index with the fields of a decision, for all bodies that carry them."""
