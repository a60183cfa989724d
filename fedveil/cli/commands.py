"""All commands as one program: a user's mistake gets one line on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated

import typer

from fedveil import __version__
from fedveil.cli import audit, data, demo, flower, leak, ledger, report, run, schema, tune, zoo
from fedveil.cli.further import add_commands
from fedveil.core.errors import InputError, InterruptedWork

# Newer versions of Typer include click under another name; the base class of its errors has the same name in all.
_Fault: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    name="fedveil",
    help="Train, attack, certify and report attribute privacy in federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("leak")(leak.leak)
app.command("audit")(audit.audit)
app.command("ledger")(ledger.ledger)
app.command("run")(run.run)
app.command("tune")(tune.tune)
app.command("report")(report.report)
app.command("schema")(schema.schema)
app.add_typer(data.app, name="data")
app.add_typer(flower.app, name="flower")
app.add_typer(zoo.app, name="zoo")
add_commands(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedveil {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its code."""
    try:
        code = app(args=arguments, standalone_mode=False)
        if code == 130:  # Typer's code for Ctrl-C
            _complain("interrupted")
    except InputError as fault:
        code = _complain(str(fault))
    except _Fault as fault:
        message = fault.format_message()  # type: ignore[attr-defined]
        context = getattr(fault, "ctx", None)
        command = context.command_path if context else "fedveil"
        code = _complain(f"{message} (see: {command} --help)") if message else 2  # no message: the help was shown
    except (KeyboardInterrupt, typer.Abort):
        code = _complain("interrupted", 130)
    except InterruptedWork as fault:
        code = _complain(str(fault), 130)
    except BrokenPipeError:  # whoever read our output has stopped reading
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception:  # a bug: show where, and exit with a code that cannot be mistaken for a result
        traceback.print_exc()
        code = 70
    sys.exit(code if isinstance(code, int) else 0)


def _complain(line: str, code: int = 2) -> int:
    typer.echo(f"fedveil: {' '.join(line.split())}", err=True)
    return code
