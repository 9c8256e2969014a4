"""NOAA's fixed-width files of the U.S. Historical Climatology Network, version 2.5, as its readme says."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError
from lorank.types import Array

T = TypeVar("T")

MISSING = -9999
WIDTH = 124  # station (11), blank, year (4), then twelve times value (6) and three flags


class Stations(NamedTuple):
    """The station list: ids (USH and eight digits), where they are in degrees, and how high in metres."""

    station: Array
    latitude: npt.NDArray[np.float64]
    longitude: npt.NDArray[np.float64]
    elevation: npt.NDArray[np.float64]


class YearLines(NamedTuple):
    """One line for each station and year; values (lines, 12) are NaN where missing or doubtful."""

    station: Array
    year: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


def read_stations(path: Path) -> Stations:
    """`ushcn-v2.5-stations.txt`: id in columns 1-11, latitude in 13-20, longitude in 22-30, elevation in 33-37."""

    def parse(lines: bytes) -> Stations:
        kept = [line for line in lines.split(b"\n") if line.strip()]
        return Stations(
            np.array([line[:11].decode() for line in kept], dtype="U11"),
            np.array([float(line[12:20]) for line in kept]),
            np.array([float(line[21:30]) for line in kept]),
            np.array([float(line[32:37]) for line in kept]),
        )

    return _parsed(parse, path.read_bytes(), path.name, "a station's id, latitude, longitude and elevation")


def data_files(paths: list[Path], ending: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of data files, or of those with this ending inside NOAA's tar archives."""
    for path in paths:
        if not path.name.endswith(".tar.gz"):
            yield path.name, path.read_bytes()
            continue
        with tarfile.open(path) as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.name.endswith(ending) else None
                if stream is not None:
                    yield member.name, stream.read()


def read_years(lines: bytes, name: str, unit: float) -> YearLines:
    """A data file: lines `station year (value DMFLAG QCFLAG DSFLAG) x 12`, values being whole numbers of
    `unit`.

    Missing are: -9999; values that failed quality control (any QCFLAG but A, which marks another way of
    adjusting); and values that NOAA estimated from the neighbours (DMFLAG E, only in adjusted files), for
    they are not measurements.
    """

    def parse(lines: bytes) -> YearLines:
        kept = [line.rstrip() for line in lines.split(b"\n") if line.strip()]
        if not kept:
            return YearLines(np.empty(0, "U11"), np.empty(0, np.int64), np.empty((0, 12)))
        # Fixed width lets all fields be cut at once: a line is a row of bytes. Flags that were stripped read
        # as NUL.
        characters = np.array(kept, dtype=f"S{WIDTH}").view(np.uint8).reshape(-1, WIDTH)
        months = characters[:, 16:].reshape(-1, 12, 9)
        values = _words(months[:, :, :6]).astype(np.int64)
        measured, quality = months[:, :, 6], months[:, :, 7]
        passed = np.isin(quality, np.frombuffer(b" \0A", np.uint8))
        good = (values != MISSING) & passed & (measured != ord("E"))
        station = _words(characters[:, :11]).astype("U11")
        return YearLines(station, _words(characters[:, 12:16]).astype(np.int64), np.where(good, values * unit, np.nan))

    return _parsed(parse, lines, name, "a station, a year and twelve values with flags")


def by_month(stations: Stations, years: list[YearLines]) -> tuple[Stations, npt.NDArray[np.datetime64], Array]:
    """The stations that have data, all months of the years that have any, and values (stations, months)."""
    station = np.concatenate([part.station for part in years])
    year = np.concatenate([part.year for part in years])
    if unknown := set(station.tolist()) - set(stations.station.tolist()):
        raise InputError(
            f"Station {min(unknown)} has data but is not in the station list; get the list of that version."
        )
    first, last = int(year.min()), int(year.max())
    order = np.argsort(stations.station)
    row = order[np.searchsorted(stations.station, station, sorter=order)]
    values = np.full((stations.station.size, last - first + 1, 12), np.nan)
    pairs, counts = np.unique(row * values.shape[1] + year - first, return_counts=True)
    if (counts > 1).any():
        twice, when = divmod(int(pairs[counts > 1][0]), values.shape[1])
        raise InputError(
            f"Station {stations.station[twice]} has two lines for {first + when}; keep the files of one version only."
        )
    values[row, year - first] = np.concatenate([part.values for part in years])
    present = np.unique(row)
    time = np.arange(f"{first}-01", f"{last + 1}-01", dtype="datetime64[M]")
    return Stations(*(field[present] for field in stations)), time, values[present].reshape(present.size, -1)


def _words(characters: Array) -> Array:
    """Bytes (..., width) as texts (...)."""
    return np.ascontiguousarray(characters).view(f"S{characters.shape[-1]}")[..., 0]


def _parsed(parse: Callable[[bytes], T], lines: bytes, name: str, form: str) -> T:
    """`parse(lines)`, whose ValueError becomes an InputError that names the first line that cannot be parsed.

    `name` is the file, `form` what a line should look like.
    """
    number = 1
    try:
        return parse(lines)
    except ValueError:
        suspects = lines.split(b"\n")
    # Bisection: the good half is parsed and dropped, so that finding the line costs about as much as one more
    # parse.
    while len(suspects) > 1:
        half = len(suspects) // 2
        try:
            parse(b"\n".join(suspects[:half]))
        except ValueError:
            suspects = suspects[:half]
        else:
            suspects = suspects[half:]
            number += half
    text = suspects[0].decode("utf-8", "replace").strip()
    raise InputError(f"Line {number} of {name} is {text[:60]!r}, not {form}; correct it or get the file again.")
