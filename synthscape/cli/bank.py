"""``synthscape bank``: build a store from recordings, look into one, check one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

bank_app = typer.Typer(name="bank", help="Build, inspect and check stores of clips.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for machines.")]


@bank_app.command()
def build(
    source: Annotated[Path, typer.Argument(help="Folder of recordings.")],
    out: Annotated[Path, typer.Option("--out", help="Store to write.")],
    kind: Annotated[str, typer.Option(help="pseudovox, backgrounds or impulses.")] = "pseudovox",
    include: Annotated[
        list[str] | None, typer.Option(help="Only files whose path in SOURCE matches, such as 'calls/*'; repeatable.")
    ] = None,
    metadata: Annotated[
        Path | None, typer.Option(help="CSV: a column `file` and any identity or biology columns.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="OURS=THEIRS: what the metadata call one of our columns.")
    ] = None,
    ignore_columns: Annotated[
        str, typer.Option(help="Metadata columns to leave out, a,b,c; * = all unknown ones.")
    ] = "",
    cut: Annotated[str, typer.Option(help="whole, activity or annotations.")] = "whole",
    label: Annotated[str, typer.Option(help="Column that labels of annotations go to.")] = "species",
    pad: Annotated[float, typer.Option(help="Seconds kept on each side of an annotated box.")] = 0.2,
    mixture: Annotated[
        Path | None, typer.Option(help="Raw recordings of separated stems, same names (--cut activity).")
    ] = None,
    rate: Annotated[int, typer.Option(help="Sample rate of the store, Hz.")] = 16000,
    channel: Annotated[str, typer.Option(help="first, mean or loudest.")] = "loudest",
    highpass: Annotated[float, typer.Option(help="High-pass in Hz; 0 removes DC only.")] = 20.0,
    medium: Annotated[
        str | None, typer.Option(help="air, water or contact, for files whose metadata don't say.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a store at --out.")] = False,
    as_json: Json = False,
) -> None:
    """Cut the recordings of a folder into clips and write a store.

    What can't be used is listed in OUT/rejected.csv with its reason, and the exit code is 1; the rest is built.
    """
    from synthscape.bank.annotations import Annotations, read_annotations
    from synthscape.bank.build import build_store
    from synthscape.bank.decode import CHANNELS
    from synthscape.bank.metadata import Metadata, read_metadata, typed
    from synthscape.bank.schema import KINDS, METADATA_COLUMNS, nearest
    from synthscape.bank.sources import find_files, read_recordings
    from synthscape.bank.writer import check_free
    from synthscape.errors import SpecError

    policy = next((name for name in CHANNELS if name == channel), None)
    if policy is None:
        raise SpecError(f"--channel must be one of {', '.join(CHANNELS)}, got {channel!r}")
    if kind not in KINDS:
        raise SpecError(f"--kind must be one of {', '.join(KINDS)}, got {kind!r}")
    if label not in METADATA_COLUMNS:
        raise SpecError(f"--label: a store has no column {label!r}{nearest(label, METADATA_COLUMNS)}")
    if not 1000 <= rate <= 1_000_000:
        raise SpecError(f"--rate must be between 1000 and 1000000 Hz, got {rate}")
    if mixture is not None and (cut != "activity" or not mixture.is_dir()):
        raise SpecError(f"--mixture names the folder of raw recordings for --cut activity, got {mixture} and {cut}")
    if metadata is None and (column or ignore_columns):
        raise SpecError("--column and --ignore-columns are about a table; name it with --metadata")
    check_free(out, overwrite)
    folder = find_files(source, include or ())
    said: Metadata | None = None
    if metadata is not None:
        ignored = [name.strip() for name in ignore_columns.split(",") if name.strip()]
        said = read_metadata(metadata, source, folder.files, _renamed(column or []), ignored)
    boxes: Annotations | None = read_annotations(source, folder.files, label) if cut == "annotations" else None
    if boxes is not None and not boxes.tables:
        unread = "; ".join(f"{_shown(name)}: {why}" for name, why in list(boxes.unread.items())[:3])
        raise SpecError(
            f"--cut annotations: expected tables beside the files of {source}, got {unread or 'no .txt, .csv, .tsv'}; "
            "docs/bank.md says which are read"
        )
    with _progress(len(folder.files), "building") as advance:
        report = build_store(
            read_recordings(
                folder,
                rate,
                policy,
                said,
                boxes,
                mixture,
                lambda _: advance(),
                {"medium": typed("medium", medium, "--medium")} if medium else None,
            ),
            out,
            kind,
            rate,
            cut,
            highpass_hz=highpass,
            pad_s=pad,
            overwrite=overwrite,
            cluster_columns=said.cluster_columns if said else (),
            settings={"channel": policy},
        )
    summary = report.to_dict()
    summary["ignored_files"] = folder.ignored
    if said is not None:
        summary["metadata"] = {
            "files_without_row": said.without_row,
            "rows_without_file": said.without_file,
            "rows_for_files_elsewhere": said.elsewhere,
            "matched_after_unicode_normalisation": said.renormalised,
        }
    if boxes is not None:
        summary["annotations"] = {
            "tables": boxes.tables,
            "text_files_not_read": boxes.unread,
            "files_named_with_another_extension": sorted(boxes.by_stem),
            "names_without_file": sorted(boxes.without_file),
        }
    if as_json:
        typer.echo(json.dumps(summary, ensure_ascii=True))
    else:
        _print_summary(summary)
    if report.n_rejected or report.n_rejected_clips:
        raise typer.Exit(1)


@bank_app.command()
def info(bank: Annotated[str, typer.Argument(help="A store, by its path or URL.")], as_json: Json = False) -> None:
    """Say what is in a store: classes, licences, durations, columns, conditioning."""
    from synthscape.bank.inspect import describe
    from synthscape.bank.store import ClipStore

    said = describe(ClipStore.open(bank))
    if as_json:
        typer.echo(json.dumps(said, ensure_ascii=True))
        return
    typer.echo(f"{said['path']}: {said['kind']}, {said['sample_rate']} Hz, fingerprint {said['fingerprint']}")
    lengths = said["clip_s"]
    typer.echo(
        f"{said['n_clips']} clips of {said['n_recordings']} recordings, {said['seconds']:.1f} s "
        f"({lengths['shortest']:.3f} to {lengths['longest']:.3f} s, median {lengths['median']:.3f} s)"
    )
    for name, counts in said["counts"].items():
        shown = ", ".join(f"{_shown(value)} {count}" for value, count in list(counts.items())[:12])
        more = f", and {len(counts) - 12} more" if len(counts) > 12 else ""
        typer.echo(f"{name} ({len(counts)}): {shown}{more}")
    partly = [f"{name} {count}" for name, count in said["filled"].items() if count < said["n_clips"]]
    typer.echo(f"filled in some clips: {', '.join(partly) or 'none'}")
    typer.echo(f"empty columns: {', '.join(said['empty']) or 'none'}")
    typer.echo(f"conditioning: {', '.join(f'{key} {value}' for key, value in said['conditioning'].items())}")


@bank_app.command()
def check(bank: Annotated[str, typer.Argument(help="A store, by its path or URL.")], as_json: Json = False) -> None:
    """Read a store whole: hash its audio, compare every extent; exit code 1 if something is wrong."""
    from synthscape.bank.inspect import check as check_store
    from synthscape.bank.store import ClipStore

    store = ClipStore.open(bank)
    with _progress(len(store), "checking") as advance:
        wrong = check_store(store, lambda _: advance())
    if as_json:
        typer.echo(json.dumps({"path": str(bank), "n_clips": len(store), "wrong": wrong}, ensure_ascii=True))
    else:
        for line in wrong:
            typer.echo(line)
        typer.echo(f"{bank}: {len(store)} clips, {len(wrong) or 'nothing'} wrong")
    if wrong:
        raise typer.Exit(1)


def _print_summary(summary: dict[str, Any]) -> None:
    typer.echo(
        f"{summary['n_recordings']} files in = {summary['n_with_clips']} with clips + {summary['n_rejected']} rejected"
    )
    typer.echo(
        f"{summary['n_clips']} clips, {summary['clip_seconds']:.1f} s, in {summary['path']} "
        f"(fingerprint {summary['fingerprint']})"
    )
    if summary["n_duplicates"]:
        typer.echo(f"{summary['n_duplicates']} duplicates left out: {summary['path']}/duplicates.csv")
    if summary["reasons"]:
        reasons = ", ".join(f"{reason} {count}" for reason, count in summary["reasons"].items())
        typer.echo(f"rejected: {reasons}; see {summary['path']}/rejected.csv")
    for note, count in summary["notes"].items():
        from synthscape.bank.decode import NOTES

        typer.echo(f"{count} files: {NOTES[note]}")
    if summary["ignored_files"]:
        _print_names("names were ignored: not audio, or folders that are not entered", summary["ignored_files"])
    said = summary.get("metadata", {})
    _print_names("files have no row in the metadata", said.get("files_without_row", []))
    _print_names("rows of the metadata name no file", said.get("rows_without_file", []))
    _print_names("names matched only after Unicode normalisation", said.get("matched_after_unicode_normalisation", []))
    if said.get("rows_for_files_elsewhere"):
        typer.echo(
            f"{said['rows_for_files_elsewhere']} rows of the metadata are for other files than those of the build"
        )
    drawn = summary.get("annotations", {})
    for name, why in drawn.get("text_files_not_read", {}).items():
        typer.echo(f"{_shown(name)} was not read as annotations: {why}")
    _print_names("files matched annotations by stem", drawn.get("files_named_with_another_extension", []))
    _print_names("names in annotations are no file here", drawn.get("names_without_file", []))


def _print_names(what: str, names: list[str], most: int = 10) -> None:
    if names:
        more = f", and {len(names) - most} more (--json lists all)" if len(names) > most else ""
        typer.echo(f"{len(names)} {what}: {', '.join(_shown(name) for name in names[:most])}{more}")


def _shown(name: str) -> str:
    # a file's name may hold line breaks and control characters, which must not reach the terminal
    return name if name.isprintable() else ascii(name)


def _renamed(pairs: list[str]) -> dict[str, str]:
    from synthscape.errors import SpecError

    renamed: dict[str, str] = {}
    for pair in pairs:
        ours, equals, theirs = pair.partition("=")
        if not (ours and equals and theirs):
            raise SpecError(f"--column should be OURS=THEIRS (species=species_scientific), got {pair!r}")
        if ours in renamed:
            raise SpecError(f"--column {pair}: {ours} is {renamed[ours]!r} already; give it once")
        renamed[ours] = theirs
    return renamed


@contextmanager
def _progress(total: int, what: str) -> Iterator[Callable[[], None]]:
    import sys

    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)
