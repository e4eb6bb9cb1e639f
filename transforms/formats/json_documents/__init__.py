"""JSON documents, one a line, with the fields that a mapping file names."""
