"""Remote files: object storage, SFTP servers and the web, by URIs.

Object storage is read by `transforms.storage.objects`, SFTP and the web through fsspec.
"""

from feedferry.transforms.sources.remote.file_systems import (
    again,
    connect,
    error_text,
    match_remote,
    translate_errors,
)
from feedferry.transforms.sources.remote.remote_file import open_remote, version_of
from feedferry.transforms.sources.remote.uris import (
    check_remote,
    join_uri,
    locate_object,
    scheme_of,
)

__all__ = [
    "again",
    "check_remote",
    "connect",
    "error_text",
    "join_uri",
    "locate_object",
    "match_remote",
    "open_remote",
    "scheme_of",
    "translate_errors",
    "version_of",
]
