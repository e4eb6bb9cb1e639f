"""OpenSearch and Elasticsearch as an appliance: indexes, requests, results and documents."""

from feedferry.transforms.formats.opensearch.bulk_writer import ACL_SCRIPT as ACL_SCRIPT
from feedferry.transforms.formats.search_document.document_holds import MAX_ID_BYTES as MAX_ID_BYTES
