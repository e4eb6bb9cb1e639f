"""Documents for Solr, as JSON commands, one on a line."""
