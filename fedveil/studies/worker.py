"""A worker process: takes cells from stdin, a JSON line each, and tells on stdout how they go.

It is a plain child process: no code travels, only values. When its parent is gone stdin ends, and so does it.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from fedveil.core.errors import InputError

NO_ROOM = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG)


def main() -> None:
    """Serve until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends its workers
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print must not look like our lines
    speaking = threading.Lock()

    def tell(kind: str, value: Any) -> None:
        with speaking:
            channel.write(json.dumps([kind, value]) + "\n")
            channel.flush()

    jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    while True:
        _serve(jobs.get(), tell)


def _listen(jobs: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        jobs.put(json.loads(line))
    os._exit(0)  # the parent is gone or done: whatever is unfinished can be continued from its checkpoint


def _serve(job: dict[str, Any], tell: Any) -> None:
    import torch

    from fedveil.config.cells import Cell
    from fedveil.config.study import Method, Study
    from fedveil.studies.cell_run import run_cell

    study = Study.model_validate(job["study"])
    torch.set_num_threads(study.threads)
    try:
        run_cell(study, Method.model_validate(job["method"]), Cell(**job["cell"]), Path(job["folder"]), tell)
    except InputError as fault:
        tell("failed", str(fault))
    except OSError as fault:
        told = f"{fault.strerror or fault}{f': {fault.filename}' if fault.filename else ''}"
        # A full disk that a library tells in its own words has no number; a lock that nobody lets go of is no disk.
        full = fault.errno in NO_ROOM or (fault.errno is None and not isinstance(fault, TimeoutError))
        tell("disk" if full else "failed", told)
    except Exception as fault:
        traceback.print_exc()
        tell("failed", f"{type(fault).__name__}: {fault}")
    else:
        tell("done", None)


if __name__ == "__main__":
    main()
