"""Damaged files for every reader: whatever a file holds, it is read, or refused in one sentence.

    python tests/fuzz/fuzz.py --files 100000 --formats csv Parquet --seed 0 --minutes 5

Each format has a few good files as seeds, written here. File number i of a seed is made of one of them by a handful of
mutations drawn from (seed, i), so that a failure can be made again: `--first i --files 1`. Files are read in a process
of its own: one that crashes it or never comes back is a failure like any other, and the run goes on behind it.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from formats import FORMATS

# Seconds after which a file that is still being read is taken as hanging, and a child that has not begun.
PATIENCE, STARTING = 120, 900
# Files that one child reads.
CHUNK = 20_000
# Memory that readers are told is free. A file of a few kilobytes that makes the process larger than LARGEST is a
# failure; looked at after so many files, for the system takes longer to tell than some readers to read.
FREE, LARGEST, LOOK = 1 << 30, 2 << 30, 10
# Memory needs no disk to be written to thousands of times.
PLACE = "/dev/shm" if Path("/dev/shm").is_dir() else None


def read_all(
    name: str, seed: int, first: int, last: int, failures: list[str] | None = None, until: float = np.inf
) -> Counter[str]:
    """Make and read files first..last; without a list for failures, a line of JSON for each, with the counts so far."""

    def say(**facts: object) -> None:
        if failures is None:
            print(json.dumps(facts), flush=True)
        elif "failed" in facts:
            failures.append(f"{name} {facts['failed']}: {facts['why']}\n{facts['trace']}")

    from lorank import memory
    from lorank.errors import InputError, MemoryLimitError

    warnings.simplefilter("ignore")
    # What goes wrong while an object goes is printed as a traceback, and raised nowhere; tasks log theirs.
    unraised: list[str] = []
    log = logging.Handler(logging.ERROR)
    log.emit = lambda record: unraised.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().handlers = [log]
    sys.unraisablehook = lambda about: unraised.append(f"{about.err_msg}: {about.exc_value!r} in {about.object!r}")
    tempfile.tempdir = PLACE
    # So much memory is free, as in a container: what a file announces beyond it must be refused. (To ask for the real
    # limits takes as long as to read a file.)
    memory._left_in_groups = lambda: iter([FREE])
    form, printed = FORMATS[name], io.StringIO()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="lorank-fuzz-", dir=PLACE) as folder:
        seeds = form.seeds(Path(folder))
        seeds = seeds if isinstance(seeds, (bytes, dict)) else list(seeds)
        path = Path(folder) / "file" / form.filename
        path.parent.mkdir()
        before = _largest()
        for number in range(first, last):
            if time.time() > until:
                break
            say(at=number, counts=counts)
            target = form.damage(seeds, np.random.default_rng([seed, number]), path)
            try:
                with redirect_stdout(printed):
                    form.read(target)
                counts["read"] += 1
            except (InputError, MemoryLimitError) as error:
                counts["refused"] += 1
                if "\n" in str(error).strip():
                    counts["failed"] += 1
                    say(failed=number, why="more than one line", trace=str(error))
            except Exception as error:
                counts["failed"] += 1
                say(failed=number, why=f"{type(error).__name__}: {error}"[:300], trace=traceback.format_exc())
            if printed.tell():
                unraised.append(f"prints {printed.getvalue()!r}")
                printed.seek(0)
                printed.truncate()
            if unraised:
                counts["failed"] += 1
                say(failed=number, why=unraised.pop(), trace="")
                unraised.clear()
            if number % LOOK == 0 and (now := _largest()) > before + LARGEST:
                before = now
                counts["failed"] += 1
                say(failed=number, why=f"takes {now >> 20} MiB, or one of the {LOOK - 1} before it", trace="")
    say(done=True, counts=counts)
    return counts


def _largest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def fuzz(name: str, files: int, seed: int = 0, first: int = 0, until: float = np.inf) -> tuple[Counter[str], list[str]]:
    """Read so many damaged files in child processes; how many were read, refused and failed, and how those failed."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    at, last = first, first + files
    while at < last and time.time() < until:
        chunk = min(last, at + CHUNK)
        numbers = {"--seed": seed, "--first": at, "--files": chunk - at, "--until": until}
        command = [sys.executable, __file__, "--child", name, *(str(word) for pair in numbers.items() for word in pair)]
        done, here, err, so_far = False, at - 1, b"", Counter[str]()
        with tempfile.NamedTemporaryFile() as log, tempfile.TemporaryFile() as errors:
            child = subprocess.Popen(command, stdout=log, stderr=errors)
            with open(log.name, encoding="utf-8") as said:
                moved, rest = time.monotonic(), ""
                while True:
                    ended = child.poll() is not None
                    *lines, rest = (rest + said.read()).split("\n")
                    for line in map(json.loads, lines):
                        moved = time.monotonic()
                        here = line.get("at", here)
                        if "failed" in line:
                            failures.append(f"{name} {line['failed']}: {line['why']}\n{line['trace']}")
                        so_far = Counter(line.get("counts", so_far))
                        done = done or "done" in line
                    if ended:
                        break
                    if time.monotonic() - moved > (PATIENCE if here >= at else STARTING):
                        child.kill()
                    time.sleep(0.05)
            errors.seek(0)
            err = errors.read()
        counts.update(so_far)
        if done:
            at = chunk
            continue
        # It crashed, was killed, or did not even start.
        code = child.returncode
        counts["failed"] += 1
        reason = "hangs" if code == -signal.SIGKILL else f"ends the process ({code})"
        failures.append(f"{name} {here}: {reason}\n{err[-2000:].decode(errors='replace')}")
        if here < at:
            break
        at = here + 1
    return counts, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000, help="of each format")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", nargs="+", choices=[*FORMATS], default=[*FORMATS])
    parser.add_argument("--minutes", type=float, default=np.inf, help="for each format at most")
    parser.add_argument("--child", choices=[*FORMATS], help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=np.inf, help=argparse.SUPPRESS)
    parser.add_argument(
        "--together", action="store_true", help="all formats in this process: quick, and a crash ends it"
    )
    given = parser.parse_args()
    last = given.first + given.files
    if given.child:
        read_all(given.child, given.seed, given.first, last, until=given.until)
        return 0
    wrong = 0
    for name in given.formats:
        began, failures = time.monotonic(), []
        until: Any = time.time() + 60 * given.minutes
        if given.together:
            counts = read_all(name, given.seed, given.first, last, failures, until)
        else:
            counts, failures = fuzz(name, given.files, given.seed, given.first, until)
        parts = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
        print(f"{name:20} {counts.total():7} files  {time.monotonic() - began:7.1f} s  {parts}", flush=True)
        alike: dict[str, list[str]] = {}
        for failure in failures:  # one of each kind, and how many there are
            alike.setdefault("\n".join(failure.strip().splitlines()[-3:-1]), []).append(failure)
        for kind in list(alike.values())[:20]:
            print(f"{len(kind)} like this: {kind[0]}", flush=True)
        wrong += len(failures)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
