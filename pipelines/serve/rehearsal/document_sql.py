"""The statements that change the table of documents; what they mean is told in `documents`."""

COLUMNS = (
    *("profile", "url", "datasource", "kind", "action", "arrival", "mimetype", "display_url"),
    *("bytes", "sha256", "metadata", "acl", "acl_is_alone", "fields", "flags", "searchable"),
    "feed",
)
SCHEMA = (
    "CREATE TABLE documents (id INTEGER PRIMARY KEY, profile TEXT NOT NULL, url TEXT NOT NULL,"
    " datasource TEXT NOT NULL, kind TEXT NOT NULL, action TEXT NOT NULL, arrival TEXT,"
    " mimetype TEXT, display_url TEXT, bytes INTEGER, sha256 TEXT, metadata TEXT, acl TEXT,"
    " acl_is_alone INTEGER NOT NULL, fields TEXT, flags TEXT, searchable INTEGER NOT NULL,"
    " feed INTEGER NOT NULL)",
    "CREATE UNIQUE INDEX documents_url ON documents (url, profile)",
    "CREATE INDEX documents_of ON documents (datasource)",
    "CREATE INDEX documents_hidden ON documents (profile) WHERE kind = 'data' AND NOT searchable",
    "CREATE TABLE left_out (feed INTEGER NOT NULL, url TEXT NOT NULL, PRIMARY KEY (feed, url))"
    " WITHOUT ROWID",
    "CREATE TABLE skipped (url TEXT PRIMARY KEY, datasource TEXT NOT NULL) WITHOUT ROWID",
)

_Rules = dict[str, str]


def _upsert(rules: _Rules) -> str:
    """Insert a row, or set columns of the one that has its url by rules."""
    names, marks = ", ".join(COLUMNS), ", ".join("?" * len(COLUMNS))
    settings = ", ".join(f"{name} = {rule}" for name, rule in rules.items())
    return (
        f"INSERT INTO documents ({names}) VALUES ({marks})"
        f" ON CONFLICT (url, profile) DO UPDATE SET {settings}"
    )


def _stated(name: str) -> str:
    return f"coalesce(excluded.{name}, documents.{name})"


def _merged(name: str) -> str:
    old = f"coalesce(documents.{name}, '{{}}')"
    return f"iif(excluded.{name} IS NULL, documents.{name}, json_patch({old}, excluded.{name}))"


def _unless_pushed(name: str) -> str:
    """As an update where the url is one of a content feed, else all that the web feed says."""
    is_pushed = "documents.kind = 'feed' AND documents.arrival = 'PUSHED'"
    own = {**_STATED_ACL, "metadata": _stated("metadata"), "flags": _merged("flags")}
    return f"iif({is_pushed}, {own.get(name, f'documents.{name}')}, {_REPLACED[name]})"


_STATED_ACL: _Rules = {
    "acl": _stated("acl"),
    "acl_is_alone": "iif(excluded.acl IS NULL, documents.acl_is_alone, excluded.acl_is_alone)",
}
_KEEPS_ACL = "excluded.acl IS NULL AND documents.acl_is_alone"
_REPLACED: _Rules = {
    **{name: f"excluded.{name}" for name in COLUMNS if name not in ("profile", "url")},
    "acl": f"iif({_KEEPS_ACL}, documents.acl, excluded.acl)",
    "acl_is_alone": f"iif({_KEEPS_ACL}, 1, excluded.acl_is_alone)",
}
_TOUCHED: _Rules = {name: f"excluded.{name}" for name in ("action", "feed")}

REPLACE = _upsert(_REPLACED)
UPDATE = _upsert(
    {
        **_REPLACED,
        **{name: _stated(name) for name in ("mimetype", "display_url", "metadata")},
        **{name: _stated(name) for name in ("bytes", "sha256")},
        **{name: _merged(name) for name in ("fields", "flags")},
        **_STATED_ACL,
        "searchable": "max(documents.searchable, excluded.searchable)",
    }
)
CRAWL = _upsert({**{name: _unless_pushed(name) for name in _REPLACED}, **_TOUCHED})
GIVE_ACL = _upsert(
    {
        "acl": "excluded.acl",
        "acl_is_alone": "1",
        "datasource": "iif(documents.kind = 'acl', excluded.datasource, documents.datasource)",
        **_TOUCHED,
    }
)
DELETE = "DELETE FROM documents WHERE url = ? AND profile = ? AND datasource = ?"
DELETE_ACL = f"{DELETE} AND kind = 'acl'"
_FITTING = "FROM documents WHERE profile = ? AND url >= ? AND url < ? AND fits(?, url)"
DELETE_FITTING = f"DELETE {_FITTING}"
COUNT_FITTING = f"SELECT count(*) {_FITTING}"
SHOW = "UPDATE documents SET searchable = 1 WHERE profile = ? AND kind = 'data' AND NOT searchable"
FORGET = "DELETE FROM documents WHERE datasource = ? AND profile = ''"
_IS_OF_FEEDS = "profile = '' AND kind <> 'acl'"
_DOCUMENTS = f"FROM documents WHERE {_IS_OF_FEEDS}"
SKIP = "INSERT OR REPLACE INTO skipped VALUES (?, ?)"
UNSKIP = "DELETE FROM skipped WHERE datasource = ?"
LEAVE_OUT = (
    f"INSERT INTO left_out SELECT ?1, url {_DOCUMENTS} AND datasource = ?2"
    " UNION SELECT ?1, url FROM skipped WHERE datasource = ?2"
)
_IS_IN = "EXISTS (SELECT 1 FROM {0} WHERE {0}.url = left_out.url AND {1})".format
_IS_FED = _IS_IN("documents", _IS_OF_FEEDS)
KEEP = f"DELETE FROM left_out WHERE feed = ? AND ({_IS_FED} OR {_IS_IN('skipped', 'true')})"
_IS_SKIPPED = _IS_IN("skipped", "datasource <> ?2")
_TAKEN = (
    "SELECT max(feed) FROM documents WHERE documents.url = left_out.url AND kind <> 'acl'"
    " AND (profile <> '' OR datasource <> ?2)"
)
LEFT_OUT = (
    f"SELECT url, ({_TAKEN}) FROM left_out WHERE feed = ?1 AND NOT {_IS_SKIPPED} ORDER BY url"
)
