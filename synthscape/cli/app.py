"""The root command; each group of commands stands in a module of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from synthscape.cli.bank import bank_app
from synthscape.cli.render import demo, plan, render
from synthscape.cli.spec import spec_app

app = typer.Typer(
    name="synthscape",
    help="Synthetic soundscapes of animal sound, with exact labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"synthscape {version('synthscape')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Synthetic soundscapes of animal sound, with exact labels."""


app.command()(demo)
app.command()(plan)
app.command()(render)
app.add_typer(bank_app)
app.add_typer(spec_app)
