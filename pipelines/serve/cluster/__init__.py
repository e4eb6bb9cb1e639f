"""A rehearsal of OpenSearch: the requests of the appliance `opensearch`, and its documents."""
