"""Discovery Engine as an appliance: an import of files that are in Cloud Storage."""
