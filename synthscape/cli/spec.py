"""``synthscape spec``: check a spec, show it complete, or print its JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from synthscape.spec.load import Origins
    from synthscape.spec.problem import Key
    from synthscape.spec.schema import Spec

spec_app = typer.Typer(
    name="spec",
    help="Check a spec, show it complete, or print its JSON Schema.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SpecArgument = Annotated[str, typer.Argument(metavar="SPEC", help="A YAML file, or the name of a shipped spec.")]
OverridesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Overrides, as in items=100 events.snr.db=5.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@spec_app.command()
def check(spec: SpecArgument, overrides: OverridesArgument = None, json: JsonOption = False) -> None:
    """Check a spec, and that its stores are there. Exit code 2: the spec is wrong; 1: a store or table is missing."""
    from synthscape.spec.load import load_with_origins

    loaded, origins = load_with_origins(spec, overrides or [])
    missing = _missing_stores(loaded, origins)
    if json:
        _print_json({"spec": spec, "ok": not missing, "missing": missing})
    for problem in missing:
        typer.echo(f"synthscape: {problem}", err=True)
    if missing:
        raise typer.Exit(1)
    if not json:
        typer.echo(f"{spec}: ok, {loaded.items} items of {loaded.task} at {loaded.sample_rate} Hz")


@spec_app.command()
def show(spec: SpecArgument, overrides: OverridesArgument = None, json: JsonOption = False) -> None:
    """Print a spec with every key, defaults and overrides filled in."""
    from synthscape.spec import load_spec

    loaded = load_spec(spec, overrides or [])
    if json:
        _print_json(loaded.plain())
    else:
        typer.echo(loaded.to_yaml(), nl=False)


@spec_app.command()
def schema() -> None:
    """Print the JSON Schema of a spec, for editors that complete and check YAML."""
    from synthscape.spec.json_schema import spec_json_schema

    _print_json(spec_json_schema())


def _missing_stores(spec: Spec, origins: Origins) -> list[str]:
    from pathlib import Path

    from synthscape.spec.problem import key_text
    from synthscape.storage import place_at

    missing = []
    stores: list[tuple[Key, str | None]] = [
        (("bank",), spec.bank),
        (("backgrounds",), spec.backgrounds if spec.background.noise.probability < 1 else None),
        (("events", "propagation", "impulses"), spec.events.propagation.impulses),
    ]
    for key, path in stores:
        if path is None:
            continue
        folder = place_at(path)
        if not folder.exists("store.json"):
            got = "a folder without store.json" if folder.exists("") else "no such folder"
            make = "'synthscape demo' or 'synthscape bank build'"
            missing.append(
                f"{origins.of(key)}: {key_text(key)}: expected a clip store at {path}, got {got}; "
                f"make one with {make}, or set {key_text(key)}=FOLDER"
            )
    table = spec.community.table
    if table is not None and not Path(table).is_file():
        place = origins.of(("community", "table"))
        missing.append(f"{place}: community.table: expected a file at {table}, got none; set another")
    return missing


def _print_json(content: dict[str, Any]) -> None:
    from json import dumps

    typer.echo(dumps(content, indent=2, ensure_ascii=False))
