"""A worker process: it reads units from stdin, one JSON line each, and reports their progress and results on stdout.

It is a plain child process: it receives only values, never code. It imports a task's module once and computes many
units. When its parent ends, stdin ends, and so does the worker.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from typing import Any


def main() -> None:
    """Serve until stdin ends. The first line is the parent's module search path."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends its workers
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print must not look like our lines
    sys.path[:] = json.loads(sys.stdin.readline() or "[]") or sys.path
    write_lock = threading.Lock()

    def send(kind: str, value: Any) -> None:
        with write_lock:
            channel.write(json.dumps([kind, value]) + "\n")
            channel.flush()

    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    from fedveil.studies.units import Report, compute

    while True:
        unit = json.loads(lines.get())
        send(*compute(unit["task"], unit["payload"], unit["threads"], Report(send)))


def _listen(lines: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)  # the parent has ended or is done: an unfinished unit can be computed again or continued


if __name__ == "__main__":
    main()
