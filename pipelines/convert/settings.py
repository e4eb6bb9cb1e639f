"""The settings of a run for its spans, and the check of its account."""

from pathlib import Path

from pipelines.cli.convert_options import ConvertOptions, docids
from schemas.account import Account, check_balance
from schemas.errors import ConfigError, FatalError, FeedferryError, StoppedError
from schemas.notice import REFUSED
from transforms.adapt import Target
from transforms.convert import Settings
from transforms.formats import Mode, NotFound, ReadOptions, WriteOptions
from transforms.sources import SourceConfig


def settings_of(
    options: ConvertOptions,
    known_urls: tuple[str, ...],
    folder: Path,
    sources: dict[str, SourceConfig],
) -> Settings:
    """Return the settings of a run for its spans."""
    target = Target(
        format=options.to_format,
        feedtype=options.feedtype,
        datasource=options.datasource,
        dialect=options.dialect,
        empty_metadata=options.empty_metadata.value,
        known_urls=known_urls,
        wide_deletes=options.allow_wide_deletes,
        default_mimetype=options.default_mimetype,
        named_fields=tuple((field.name, field.field) for field in options.fields),
        max_content_bytes=options.max_content_bytes,
        content_encoding=options.content_encoding,
    )
    limit = options.max_rejects
    return Settings(
        folder=str(folder.absolute()),
        target=target,
        reading=ReadOptions(
            max_content_bytes=options.max_content_bytes,
            zone=options.zone,
            mode=Mode.STRICT if options.strict else Mode.LENIENT,
            docids=docids(options),
            not_found=NotFound(options.not_found),
            max_token_bytes=options.max_token_bytes,
        ),
        writing=WriteOptions(
            dialect=options.dialect,
            zone=options.zone,
            docids=docids(options),
            delimiter=options.delimiter,
            max_content_bytes=options.max_content_bytes,
        ),
        max_chunk_bytes=options.max_chunk_bytes,
        max_chunk_records=options.max_chunk_records,
        refused=(REFUSED - options.accept_loss) | options.fail_on_loss,
        max_rejects=limit.count if limit is not None else None,
        sources=sources,
        state=options.state and str(Path(options.state).absolute()),
        has_progress=True,
        allow_empty_full=options.allow_empty_full,
        accept_holes=options.accept_holes,
        verify=options.verify,
    )


def check_account(account: Account) -> None:
    """Raise the error that stopped a span, or BalanceError."""
    if account.stopped is not None:
        raise _STOPS.get(account.exit_code, FeedferryError)(account.stopped)
    check_balance(account)


_STOPS: dict[int, type[FeedferryError]] = {
    ConfigError.exit_code: ConfigError,
    StoppedError.exit_code: StoppedError,
    FatalError.exit_code: FatalError,
}
