"""Who finds a document in OpenSearch, Elasticsearch and Solr: the filter of a search.

::

    from feedferry import access

    user = access.members_of(["bob"], groups=["staff"])
    query = {"bool": {"must": [...], "filter": [access.search_filter(access.tokens_of(user))]}}

Each search needs the filter: an index shows all documents to a search without it. `permits` decides
by the fields of a document without a server.
"""

from feedferry.pipelines.inspect.user_access import find_members as members_of
from feedferry.transforms.access.index_fields import (
    field_names,
    permits,
    search_filter,
    security_role,
    tokens_of,
)
from feedferry.transforms.access.solr_filter import solr_filter

__all__ = [
    "field_names",
    "members_of",
    "permits",
    "search_filter",
    "security_role",
    "solr_filter",
    "tokens_of",
]
