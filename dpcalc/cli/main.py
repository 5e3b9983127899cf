"""The entry point: finds the command, loads only its module, and turns every error into one line and an exit code."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from dpcalc.errors import DpcalcError
from dpcalc.version import __version__

# Name, and the line shown in `dpcalc --help`; dpcalc.cli.NAME holds the command NAME, imported when it is called.
COMMANDS = {
    "compose": "Certified ε, μ-GDP and RDP of a list of mechanisms.",
    "calibrate": "Solve a list of mechanisms for one number, given a budget.",
    "convert": "Between (ε,δ), μ-GDP, RDP, zCDP and trade-off curves.",
    "filter": "Privacy filters and odometers on a log of gradient norms.",
    "sgd-bound": "Last-iterate bounds for noisy gradient descent on convex losses.",
    "exp-mech": "GDP bounds for the exponential mechanism and Langevin sampling.",
    "train": "Private training with individual filters and online clipping.",
    "ledger": "Budgets that several people and jobs draw on, and that are never overdrawn.",
}

INTERRUPTED = 130


class LazyGroup(TyperGroup):
    """A command group that knows its commands by name and imports one only when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # Stand-ins that carry the name and the short help, enough for `dpcalc --help` and for suggestions.
        self.commands.update({name: TyperCommand(name, help=line) for name, line in COMMANDS.items()})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, stand_in, rest = super().resolve_command(ctx, args)
        if stand_in is None or name is None:
            return name, stand_in, rest
        word = name.replace("-", "_")
        command: typer.Typer = getattr(import_module(f"dpcalc.cli.{word}"), word)
        return name, typer.main.get_command(command), rest


# Plain help at the top: `dpcalc --help` must not wait for Rich. Each command has its own, drawn by Rich.
app = typer.Typer(cls=LazyGroup, no_args_is_help=True, rich_markup_mode=None)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpcalc {__version__}")
        raise typer.Exit


@app.callback(epilog="Example: dpcalc convert --gdp 1.2 --delta 1e-5")
def root(
    *,
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Privacy budget calculator: what do these differentially private mechanisms cost?"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 within budget, 1 over budget, 2 bad input, 3 not certified, 130 interrupted."""
    try:
        code = app(args=arguments, prog_name="dpcalc", standalone_mode=False) or 0
    except typer.TyperException as error:
        code = _report(_usage_message(error), 2)
    except DpcalcError as error:
        code = _report(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = _report("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our pipe has gone; leave quietly, also when Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except MemoryError:
        code = _report("out of memory: the input is too large for this machine", 2)
    except OSError as error:
        code = _report(f"{error.filename or 'input/output'}: {error.strerror or error}", 2)
    except Exception as error:
        if os.environ.get("DPCALC_DEBUG"):
            raise
        message = f"internal error, nothing was certified ({type(error).__name__}: {error})"
        code = _report(f"{message}; set DPCALC_DEBUG=1 for the details and please report it", 3)
    sys.exit(code)


def _usage_message(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        typer.echo(context.get_help(), err=True)
        return "a command is needed"
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return error.format_message().rstrip(".") + hint


def _report(message: str, code: int) -> int:
    sys.stdout.flush()
    typer.echo(f"dpcalc: {message}", err=True)
    return code
