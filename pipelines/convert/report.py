"""The report of a run, as text for a terminal and as `report.json`."""

import json
from inspect import cleandoc

import msgspec
from msgspec.structs import replace

from pipelines.cli.display import count_table
from schemas.account import AccountTotals
from schemas.notice import REFUSED

VERSION = 1
_COLUMNS = ("read", "written", "rejected", "filtered")


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a finished run, its folder, and its exit code: the file `report.json`.

    Its JSON Schema is `docs/report.schema.json`. `version` grows when a field is removed or changes
    its meaning; a reader must ignore fields that it does not know. A planned run has no folder.
    """

    version: int = VERSION
    account: AccountTotals
    folder: str | None
    chunks: int
    chunk_bytes: int
    exit_code: int
    settings: dict[str, object]
    sources: tuple[str, ...]


def as_json(report: Report) -> dict[str, object]:
    """Return the report as plain values, without the chunks, which are in the manifest."""
    totals = msgspec.convert(report.account, AccountTotals, from_attributes=True)
    values: dict[str, object] = msgspec.to_builtins(replace(report, account=totals))
    return values


def report_schema() -> dict[str, object]:
    """Return the JSON Schema of `report.json`."""
    any_value = {"description": "A value of any type."}
    schema = msgspec.json.schema(Report, schema_hook=lambda kind: any_value)
    for definition in schema["$defs"].values():
        definition["description"] = cleandoc(definition["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def as_json_text(report: Report) -> str:
    """Return the report as indented JSON with sorted keys."""
    return json.dumps(as_json(report), indent=2, sort_keys=True, ensure_ascii=False)


def as_text(report: Report) -> str:
    """Return the account as a table, then losses, notices, rejects, chunks and file names."""
    account, folder = report.account, report.folder
    lines = _table(account)
    for field, loss in sorted(account.losses.items()):
        name = f"{field} (accepted)" if field in REFUSED else field
        sample = loss.samples[0]
        lines.append(f"loss      {name}: {loss.count:,}, as {sample.url}: {sample.detail}")
    for code, noted in sorted(account.notices.items()):
        lines.append(f"notice    {code}: {noted.count:,}, as {noted.first.message}")
    if account.reject_codes:
        codes = _count_rejects(account.reject_codes, account.accepted_rejects)
        lines.append(f"rejects   {codes}" + (f", in {folder}/rejects/" if folder else ""))
    for code, samples in sorted(account.reject_samples.items()):
        lines += [f"reject    {code}: {sample.message}" for sample in samples]
    if account.filter_codes:
        lines.append(f"filtered  {_count_codes(account.filter_codes)}")
    chunks = f"chunks    {report.chunks}, {report.chunk_bytes:,} bytes"
    if folder is None:
        return "\n".join([*lines, chunks])
    return "\n".join([*lines, f"{chunks}, in {folder}/chunks/", f"report    {folder}/report.json"])


def _table(account: AccountTotals) -> list[str]:
    columns = [getattr(account, name) for name in _COLUMNS]
    names = list(_COLUMNS)
    if account.expanded:
        columns.insert(1, account.expanded)
        names.insert(1, "expanded")
    actions = sorted({action for column in columns for action in column})
    rows = [(action, [column.get(action, 0) for column in columns]) for action in actions]
    rows.append(("total", [sum(column.values()) for column in columns]))
    return count_table(names, rows)


def _count_rejects(codes: dict[str, int], accepted: dict[str, int]) -> str:
    known = {code: f" ({count:,} accepted)" for code, count in accepted.items()}
    return ", ".join(f"{code} {count:,}{known.get(code, '')}" for code, count in codes.items())


def _count_codes(codes: dict[str, int]) -> str:
    return ", ".join(f"{code} {count:,}" for code, count in codes.items())
