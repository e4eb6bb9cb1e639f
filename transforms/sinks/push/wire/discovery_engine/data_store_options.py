"""The options of a data store of Discovery Engine."""

import re
from typing import Annotated

import msgspec

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.own_key import OwnKey

_STORAGE_FOLDER = re.compile(r"gs://[^/*\s]+(?:/[^*\s]*)?")


class DataStoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files of a run are that is not in Cloud Storage itself."""

    import_from: Annotated[
        str | None,
        OwnKey(help="Folder gs://BUCKET/FOLDER with copies of the chunks of a local run."),
    ] = None

    def __post_init__(self) -> None:
        if self.import_from is not None and not _STORAGE_FOLDER.fullmatch(self.import_from):
            raise ConfigError(
                f"target.import_from: {self.import_from!r}; expected gs://BUCKET/FOLDER"
            )
