"""The last phase of a job with `verify`: the documents of the run are compared with the target."""

from pathlib import Path

from msgspec.structs import replace

from feedferry.pipelines.options.compare_options import TARGET, VerifyOptions
from feedferry.pipelines.report.differences import Verification, write_verification
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sinks.push.settings import Keep, PushSettings


def verify_options(options: VerifyOptions, push: PushSettings | None) -> VerifyOptions:
    """Return the options with the address of the appliance in place of `target`.

    Raise ConfigError for a job that pushes nothing, or removes the chunks that are to be compared.
    """
    if push is None:
        raise ConfigError("⟦against⟧: the job pushes nothing; expected ⟦url⟧ of the target")
    if push.keep is not Keep.ALL:
        raise ConfigError("⟦keep⟧ refused and ⟦against⟧: both given; the chunks are compared")
    return replace(options, against=push.appliance.url) if options.against == TARGET else options


def verify_run(folder: Path, options: VerifyOptions) -> Verification:
    """Compare the chunks of a run with a target, and write what differs into its folder.

    Raises TargetError or BusyError if the target cannot be asked yet; nothing is written then.
    """
    from feedferry.pipelines.compare.verify import verify  # loads the HTTP client

    with verify((str(folder),), {}, options) as compared:
        return write_verification(folder, options.against, compared.comparer, compared.counts)
