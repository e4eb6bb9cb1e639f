"""The last phase of a job with `verify`: the documents of the run are compared with the target."""

from pathlib import Path

from msgspec.structs import replace

from feedferry.pipelines.options.compare_options import TARGET, VerifyOptions
from feedferry.pipelines.report.differences import Verification, write_verification
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.formats import by_name
from feedferry.transforms.sinks.push.settings import Keep, PushSettings


def verify_options(options: VerifyOptions, push: PushSettings | None) -> VerifyOptions:
    """Return the options with the address of the appliance in place of `target`.

    Raise ConfigError for a job that pushes nothing, or removes the chunks that are to be compared,
    and for an appliance that cannot list its documents.
    """
    from feedferry.pipelines.compare.verify import find_listing  # loads the HTTP client

    if push is None:
        raise ConfigError("⟦against⟧: the job pushes nothing; expected ⟦url⟧ of the target")
    if push.keep is not Keep.ALL:
        raise ConfigError("⟦keep⟧ refused and ⟦against⟧: both given; the chunks are compared")
    if options.against == TARGET:
        options = replace(options, against=push.appliance.url)
    find_listing(options, {}, push)
    return options


def check_compared_format(name: str, options: VerifyOptions | None) -> None:
    """Raise ConfigError for a run that is to be compared, and whose chunks cannot be read."""
    if options is not None and not by_name(name).is_read:
        raise ConfigError(
            f"⟦against⟧: the run is compared by its chunks, and {name} is only written; expected a"
            " target whose format is read"
        )


def verify_run(folder: Path, options: VerifyOptions, push: PushSettings | None) -> Verification:
    """Compare the chunks of a run with a target, and write what differs into its folder.

    Raises TargetError or BusyError if the target cannot be asked yet; nothing is written then.
    """
    from feedferry.pipelines.compare.verify import find_listing, verify  # loads the HTTP client

    with verify((str(folder),), {}, options, find_listing(options, {}, push)) as compared:
        return write_verification(folder, options.against, compared.comparer, compared.counts)
