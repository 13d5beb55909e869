"""``synthscape render``, ``plan`` and ``demo``: make a dataset, look at what it would be, see how it goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from synthscape.cli.spec import JsonOption, OverridesArgument, SpecArgument
from synthscape.cli.words import share
from synthscape.errors import SpecError

if TYPE_CHECKING:
    from synthscape.scale.render import RenderReport
    from synthscape.spec import Spec

_MOST_PLANNED: Final = 20_000
_MOST_LISTED: Final = 10
_DEMO_ITEMS: Final = 50
_DEMO_PICTURES: Final = 12

WorkersOption = Annotated[
    int | None, typer.Option("--workers", "-w", min=1, help="Threads; by default all processor cores.")
]
DeviceOption = Annotated[
    str, typer.Option(help="What mixes: cpu, cuda, cuda:1, ..., or auto for a GPU where there is one.")
]
RayOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Render on a Ray cluster: auto, HOST:PORT, or local for one on this machine; --workers: threads an actor.",
    ),
]

EventsOption = Annotated[
    bool, typer.Option("--json", help="Print events as JSON lines: begin, progress, shard, done, error, interrupted.")
]


def render(
    spec: SpecArgument,
    overrides: OverridesArgument = None,
    workers: WorkersOption = None,
    device: DeviceOption = "cpu",
    ray: RayOption = None,
    overwrite: Annotated[bool, typer.Option(help="Remove the dataset that is in the folder first.")] = False,
    shard: Annotated[
        list[int] | None,
        typer.Option(min=0, help="Render this shard only; may be repeated. Without it, all is summed up at the end."),
    ] = None,
    json: EventsOption = False,
) -> None:
    """Render a dataset; the same command again goes on where it stopped. Exit code 1: some items failed."""
    from synthscape.cli.progress import failing_told

    with failing_told(json):
        if shard and ray:
            raise SpecError("--shard: expected no --ray beside it; without --shard, a cluster renders them all")
        if shard and overwrite:
            raise SpecError("--shard: expected no --overwrite beside it, as each job would remove what others made")
        failed = (
            _render_shards(spec, overrides or [], shard, workers, device, json)
            if shard
            else _render(spec, overrides or [], workers, device, ray, overwrite, json)
        )
    if failed:
        raise typer.Exit(1)


def _render(
    spec: str,
    overrides: list[str],
    workers: int | None,
    device: str,
    ray: str | None,
    overwrite: bool,
    json: bool,
) -> list[dict[str, Any]]:
    """Render all, and give the failures."""
    from synthscape.cli.progress import tell, watched
    from synthscape.scale.render import render as render_dataset

    loaded = _loaded(spec, overrides)
    with watched(loaded, overwrites=overwrite, json=json) as progress:
        report = render_dataset(loaded, workers=workers, ray=ray, device=device, overwrite=overwrite, progress=progress)
    if json:
        tell("done", path=str(report.path), **_of_report(report))
    else:
        typer.echo("\n".join(_summary(report)))
    _list_failures(report.failures, f"{report.path}/failures.parquet")
    return report.failures


def _loaded(spec: str, overrides: list[str]) -> Spec:
    from synthscape.spec import load_spec

    loaded = load_spec(spec, overrides)
    if loaded.output.dir.startswith("memory://"):
        raise SpecError(
            f"output.dir: {loaded.output.dir} would be gone with this command; name a folder, or another URL"
        )
    return loaded


def _render_shards(
    spec: str, overrides: list[str], shards: list[int], workers: int | None, device: str, json: bool
) -> list[dict[str, Any]]:
    """Render some shards, and give the failures."""
    from synthscape.cli.progress import tell, watched
    from synthscape.scale.render import render_shards

    loaded = _loaded(spec, overrides)
    with watched(loaded, shards=shards, json=json) as progress:
        receipts = render_shards(loaded, shards, workers=workers, device=device, progress=progress)
    counts = {name: sum(receipt["counts"][name] for receipt in receipts) for name in receipts[0]["counts"]}
    failures = [failure for receipt in receipts for failure in receipt["failures"]]
    numbers = [receipt["shard"] for receipt in receipts]
    path = loaded.output.dir
    if json:
        tell(
            "done", path=path, fingerprint=receipts[0]["fingerprint"], shards=numbers, counts=counts, failures=failures
        )
    else:
        lines = [
            f"dataset   {path}",
            f"shards    {', '.join(map(str, numbers))}; when all are there, render without --shard to sum them up",
            f"items     {counts['delivered']} of {counts['items']}",
            f"scenes    {counts['scenes']}",
            f"events    {counts['events']}, {share(counts['audible'], counts['events'])} audible",
        ]
        typer.echo("\n".join(lines))
    _list_failures(failures, f"{path}/receipts")
    return failures


def _list_failures(failures: list[dict[str, Any]], file: str) -> None:
    for failure in failures[:_MOST_LISTED]:
        typer.echo(f"synthscape: {failure['item_id']} failed: {failure['reason']}", err=True)
    if len(failures) > _MOST_LISTED:
        typer.echo(f"synthscape: all {len(failures)} in {file}", err=True)


def plan(
    spec: SpecArgument,
    overrides: OverridesArgument = None,
    items: Annotated[int | None, typer.Option(min=1, help="Plan this many items only.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="How long would so many machines take?")] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores of each; by default as many as here.")] = None,
    hours: Annotated[float | None, typer.Option(min=0, help="How many machines are done in so many hours?")] = None,
    json: JsonOption = False,
) -> None:
    """Say what a dataset would hold and cost, without rendering it: counts, hours, bytes, nodes, what is dropped."""
    from synthscape.cli.forecast import forecast, forecast_lines
    from synthscape.cli.progress import counted
    from synthscape.spec import load_spec

    loaded = load_spec(spec, overrides or [])
    planned = min(items or _MOST_PLANNED, loaded.items)
    with counted("planning", planned) as progress:
        content = forecast(loaded, planned, progress, nodes=nodes, cores=cores, hours=hours)
    if json:
        _print_json(content)
    else:
        typer.echo("\n".join(forecast_lines(content)))


def demo(
    out: Annotated[Path, typer.Option(help="Where to put the bank and the dataset.")] = Path(),
    workers: WorkersOption = None,
) -> None:
    """Make a small bank of synthetic voices, render 50 scenes of 10 s from it, and draw some of them."""
    from synthscape.bank.demo import make_demo_bank
    from synthscape.cli.progress import watched
    from synthscape.output.dataset import open_dataset
    from synthscape.report.pictures import Panel, picture_sheet
    from synthscape.scale.render import render as render_dataset
    from synthscape.spec import load_spec

    bank, dataset, pictures = out / "banks" / "demo", out / "out" / "demo", out / "out" / "demo.png"
    pseudovox, backgrounds = make_demo_bank(bank)
    overrides = (
        f"items={_DEMO_ITEMS}",
        f"bank={_quoted(pseudovox)}",
        f"backgrounds={_quoted(backgrounds)}",
        f"output.dir={_quoted(dataset)}",
        "output.format=folder",  # to be listened to
        "output.raven=true",
    )
    loaded = load_spec("strong_detection", overrides)
    with watched(loaded) as progress:
        report = render_dataset(loaded, workers=workers, progress=progress)
    data = open_dataset(dataset)
    of_scene = dict(list(data.events.groupby("scene_id")))
    shown = [name for name in data.scenes["scene_id"] if name in of_scene][:_DEMO_PICTURES]
    picture_sheet(
        [Panel(data.audio(name), data.sample_rate, of_scene[name], name) for name in shown],
        pictures,
        title="synthscape demo: synthetic voices over synthetic backgrounds",
    )
    lines = [
        *_summary(report),
        f"bank      {bank}",
        f"pictures  {pictures}",
        f"audio     {dataset / 'audio'}",
        f"labels    {dataset / 'events'} (Parquet), {dataset / 'raven'} (Raven selection tables)",
    ]
    typer.echo("\n".join(lines))
    if report.failures:
        raise typer.Exit(1)


def _of_report(report: RenderReport) -> dict[str, Any]:
    names = ("fingerprint", "content_hash", "counts", "classes", "licences", "filtered", "notes", "warnings")
    return {
        **{name: report.info[name] for name in names},
        "new_shards": report.new_shards,
        "kept_shards": report.kept_shards,
        "failures": report.failures,
    }


def _summary(report: RenderReport) -> list[str]:
    counts = report.counts
    there = f" ({report.kept_shards} shards were there)" if report.kept_shards else ""
    delivered = f"{counts['delivered']} of {counts['items']}"
    scenes = f"{counts['scenes']}, {counts['hours']:.3g} h, {counts['empty']} without events"
    audible = share(counts["audible"], counts["events"])
    lines = [
        f"dataset   {report.path}{there}",
        f"items     {delivered}",
        f"scenes    {scenes}",
        f"events    {counts['events']}, {audible} audible",
        f"placed    {counts['placed']} of {counts['asked']} asked",
        f"classes   {len(report.info['classes'])}",
        f"scaled    {counts['scaled']} scenes, to stay under -1 dBFS",
    ]
    lines += [f"dropped   {reason}: {n}" for reason, n in counts["drop_reasons"].items() if n]
    if counts["ratios_refused"]:
        lines.append(f"redrawn   {counts['ratios_refused']} ratios their clips could not be played at")
    lines += [f"left out  {reason}: {n}" for reason, n in report.info["filtered"].items()]
    lines += [f"note      {note}" for note in report.info["notes"]]
    lines += [f"warning   {warning}" for warning in report.info["warnings"]]
    return lines


def _print_json(content: dict[str, Any]) -> None:
    from json import dumps

    typer.echo(dumps(content, indent=2, ensure_ascii=False))


def _quoted(path: Path) -> str:
    from json import dumps

    return dumps(str(path), ensure_ascii=False)
