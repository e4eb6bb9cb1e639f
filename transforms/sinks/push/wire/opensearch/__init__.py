"""OpenSearch and Elasticsearch as an appliance: indexes, requests, results and documents."""
