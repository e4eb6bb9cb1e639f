"""Solr as an appliance: its schema, requests, results and documents."""
