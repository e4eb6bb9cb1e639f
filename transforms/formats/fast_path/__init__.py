"""Records that are alike, in columns; docs/routes.md defines the words."""
