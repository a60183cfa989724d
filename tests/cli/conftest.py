"""Run commands as a user would, in this process: argument list in; exit code, stdout and stderr out."""

from dataclasses import dataclass

import pytest

from fedveil.cli import main


@dataclass
class Ran:
    code: int
    out: str
    err: str

    def refused(self) -> str:
        """Check for one clear line on stderr, exit code 2 and nothing else; return the line."""
        assert self.code == 2, self.err
        assert self.out == ""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("fedveil: ")
        assert "Traceback" not in self.err
        return lines[0]


@pytest.fixture
def run(capsys):
    def command(*arguments) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(stop.value.code, captured.out, captured.err)

    return command
