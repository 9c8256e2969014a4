"""What was measured of distributed fits, in docs/benchmarks/distributed.json, from which their page quotes."""

from __future__ import annotations

import json
from pathlib import Path

from lorank.experiments.machine import describe
from lorank.files import write_bytes

SAVED = Path(__file__).parents[1] / "docs" / "benchmarks" / "distributed.json"


def save(what: str, **figures: object) -> None:
    """Put the figures of one measurement into the file, in the place of earlier ones of the same name."""
    saved = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    about = describe()
    saved[what] = {"what": what, **figures, "cores": about["cores"], "lorank": about["lorank"]}
    write_bytes(SAVED, (json.dumps(dict(sorted(saved.items())), indent=1) + "\n").encode())
