"""Documents for OpenSearch and Elasticsearch, as the actions of their `_bulk` interface."""
