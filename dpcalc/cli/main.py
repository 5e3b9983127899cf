"""The entry point: finds the command, loads only its module, and turns every error into one line and an exit code."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from dpcalc.cli.failing import misused, tell
from dpcalc.cli.help import shown_as_output
from dpcalc.cli.reading import read_by
from dpcalc.commands import COMMANDS, Line, plugged_in, question
from dpcalc.errors import CertificationError, DpcalcError, InputError
from dpcalc.terminal import streams
from dpcalc.version import __version__

INTERRUPTED = 130

# More threads make the small matrices of accounting no faster and take up to three times the processor time.
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_FEW_SEARCHES = 50_000  # objects that are made between two searches for garbage
_SET_BY_USER = (*_THREADS, "OMP_NUM_THREADS", "GOTO_NUM_THREADS", "BLIS_NUM_THREADS")

_OUT_OF_RANGE = "a number on the way left the range that computers have, so nothing was certified"

_HELP = """dpcalc: what do these differentially private mechanisms cost?

{commands}

  -h, --help   -V, --version   --install-completion   dpcalc COMMAND -h: more
  Exit: 0 within budget, 1 over, 2 wrong input, 3 not certified
Examples:
  dpcalc compose examples/dp-sgd.yaml --max-epsilon 3
  dpcalc convert --gdp 1.2 --delta 1e-5
"""
_GROUP_HELP = """dpcalc {group}: {words}

{commands}

  dpcalc {group} COMMAND -h: more
Example:
  {example}
"""


class LazyGroup(TyperGroup):
    """A group of lines of the table, with the words before their names; a command is imported when it is called."""

    def __init__(self, *, above: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self.above = above
        self._take(COMMANDS)

    def _take(self, table: Mapping[str, Line]) -> None:
        """Stand-ins that carry a name and a short help, enough for `dpcalc --help` and for suggestions."""
        for name, line in table.items():
            before, _, word = f" {name}".rpartition(" ")
            if before.strip() == self.above:
                self.commands[word] = TyperCommand(word, help=line.words)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        read_by(self.get_params(ctx), {})
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[:1] == ["help"] and len(args) > 1:
            args = [*args[1:], "--help"]
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            added = {name: line for name, line in plugged_in().items() if name not in COMMANDS}
            COMMANDS.update(added)
            self._take(added)
        word, stand_in, rest = super().resolve_command(ctx, args)
        if stand_in is None or word is None:
            return word, stand_in, rest
        name = f"{self.above} {word}".strip()
        if not COMMANDS[name].home:
            settings = {"help_option_names": ["-h", "--help"]}
            return word, LazyGroup(above=name, name=word, no_args_is_help=True, context_settings=settings), rest
        if name != "train" or not any(each.startswith("--data") for each in rest):  # the built-in data are small
            _take_little()
        from dpcalc.cli.command import command

        return word, command(word, question(name)), rest

    def get_help_option(self, ctx: Any) -> Any:
        return shown_as_output(super().get_help_option(ctx))

    def get_help(self, _ctx: Any) -> str:
        wide = max(map(len, self.commands))
        lines = "\n".join(f"  {name:{wide}}  {each.help}" for name, each in self.commands.items())
        if self.above:
            first = f"{self.above} {next(iter(self.commands))}"
            words, example = COMMANDS[self.above].words, question(first).example
            text = _GROUP_HELP.format(group=self.above, words=words, commands=lines, example=example)
        else:
            text = _HELP.format(commands=lines)
        room = shutil.get_terminal_size().columns
        starts = tuple(f"  {name}" for name in self.commands)
        fitted = (
            textwrap.fill(line, room, subsequent_indent=" " * (wide + 4 if line.startswith(starts) else 2))
            for line in text.rstrip().splitlines()
        )
        return streams.spelt("\n".join(fitted))


def _take_little() -> None:
    """One thread for linear algebra, unless it is loaded or somebody has said how many; and no search for garbage
    among the modules that are about to be loaded, which holds none, nor a last one of all that the process leaves.
    """
    gc.set_threshold(_FEW_SEARCHES)
    atexit.register(gc.freeze)
    if "numpy" not in sys.modules and not any(name in os.environ for name in _SET_BY_USER):
        os.environ.update(dict.fromkeys(_THREADS, "1"))


# Plain help at the top: `dpcalc --help` must not wait for Rich. Each command has its own, drawn by Rich.
app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        streams.write(f"dpcalc {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: bool = typer.Option(
        False, "--version", "-V", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Privacy budget calculator: what do these differentially private mechanisms cost?"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 within budget, 1 over budget, 2 bad input, 3 not certified, 130 interrupted."""
    streams.prepare()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # typer's pydantic has none here to search for
    given = sys.argv[1:] if arguments is None else arguments
    try:
        with warnings.catch_warnings():
            # Arithmetic that left the range of numbers where nobody expected it certifies nothing.
            warnings.simplefilter("error", RuntimeWarning)
            code = app(args=arguments, prog_name="dpcalc", standalone_mode=False) or 0
        if code == INTERRUPTED:  # typer has caught it
            raise KeyboardInterrupt
    except DpcalcError as error:
        code = tell(error, given)
    except typer.TyperException as error:
        code = tell(misused(error), given)
    except (KeyboardInterrupt, typer.Abort):
        code = tell(InputError("interrupted"), given, code=INTERRUPTED)
    except (BrokenPipeError, SystemExit):
        # The reader of our pipe has gone, while help was being printed; typer makes an exit code of it.
        streams.abandon(sys.stdout)
        code = 0
    except MemoryError:
        code = tell(InputError("out of memory: the input is too large for this machine"), given)
    except (ArithmeticError, RuntimeWarning) as error:
        reason = " ".join(map(str, error.args[-1:]))
        code = tell(CertificationError(f"{_OUT_OF_RANGE} ({reason}); are the units right?"), given)
    except OSError as error:
        code = tell(InputError(error.strerror or str(error), where=str(error.filename or "input/output")), given)
    except Exception as error:
        if os.environ.get("DPCALC_DEBUG"):
            raise
        message = f"internal error, nothing was certified ({type(error).__name__}: {error})"
        code = tell(CertificationError(f"{message}; set DPCALC_DEBUG=1 for the details and please report it"), given)
    sys.exit(_flushed(code))


def _flushed(code: int) -> int:
    """The exit code, once what was printed has gone out: a full disk is an error, a reader that left is none."""
    try:
        streams.write("") if sys.stdout is not None else None
    except DpcalcError as error:
        streams.tell(f"dpcalc: {error}\n")
        return error.exit_code
    return code
