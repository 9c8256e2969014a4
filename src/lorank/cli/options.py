"""The options that commands share, and what they mean together."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorank.errors import InputError
from lorank.files import check_writable, is_folder, url_of

if TYPE_CHECKING:
    from lorank.estimators import MatrixCompletion

# The part of a help page for what runs on several processes or from disk.
SCALE = "Ray and data larger than memory"

JsonOption = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
ModelArgument = Annotated[Path, typer.Argument(help="Model saved by `lorank fit`.")]
RowOption = Annotated[str | None, typer.Option("--row", help="Column that holds the row ids.")]
ColOption = Annotated[str | None, typer.Option("--col", help="Column that holds the column ids.")]
ValueOption = Annotated[str | None, typer.Option("--value", help="Column that holds the values.")]
WeightOption = Annotated[
    str | None, typer.Option("--weight", help="Column that holds the weights: an entry of weight 2 counts twice.")
]
WhenOption = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="For lists: column of times (numbers or dates); what came last in each row is held out to choose by.",
    ),
]
GoalOption = Annotated[
    str,
    typer.Option(
        "--goal",
        help="values, or ranking: preferences to make lists of; auto ranks if there are no values, or all are equal.",
    ),
]
DelimiterOption = Annotated[
    str | None, typer.Option(help="Text between two cells, such as ';' or '::'; found out if not given.")
]
HeaderOption = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether the first line names the columns; without names they are 1, 2, ..."
    ),
]
EncodingOption = Annotated[str, typer.Option(help="Encoding of a text file, such as latin-1 or utf-16.")]
DecimalOption = Annotated[str, typer.Option(help="What stands before decimals in a text file: . or ,")]
NaOption = Annotated[
    str | None, typer.Option("--na", help="Words for a missing value, with commas between them, such as -999,?")
]
CommentOption = Annotated[str, typer.Option(help="Lines of a text file that begin with this are left out.")]
SheetOption = Annotated[str | None, typer.Option(help="Sheet of an Excel file; the first one if not given.")]
ClipOption = Annotated[bool, typer.Option("--clip", help="Limit predictions to the range of the training values.")]
SeedOption = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the random numbers.")]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Number of threads; all cores if not given.")]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="File to write: csv, tsv or parquet; standard output if not given."),
]


TitlesOption = Annotated[
    Path | None,
    typer.Option("--titles", help="Table about the columns: their ids first, then titles and what else lists show."),
]


SpreadsheetOption = Annotated[
    bool,
    typer.Option(
        "--spreadsheet/--no-spreadsheet",
        help="In a csv file, put an apostrophe before text that a spreadsheet would run as a formula.",
    ),
]


class Duplicates(StrEnum):
    """What --duplicates may be."""

    error = "error"
    mean = "mean"
    last = "last"


TableArgument = Annotated[
    Path, typer.Argument(help="Delimited text (also gz, xz, bz2, zip), parquet, npz, Matrix Market or NetCDF.")
]
TableOrFolderArgument = Annotated[
    Path, typer.Argument(help="Delimited text, parquet, npz, Matrix Market or NetCDF; or a folder of parquet files.")
]
RankOption = Annotated[str, typer.Option(help="Rank of the factors, or auto.")]
LamOption = Annotated[str, typer.Option(help="Weight of the regularizer, or auto.")]
BiasesOption = Annotated[str, typer.Option(help="Fit an offset of each row and column: yes, no or auto.")]
FeaturesOption = Annotated[
    str, typer.Option(help="implicit: who rated what, as features of rows and columns; none; or auto.")
]
LossOption = Annotated[str, typer.Option(help="squared, huber, logistic, ordinal, or auto.")]
EffortOption = Annotated[str, typer.Option(help="Time to spend on the choice of a model: fast, balanced or best.")]
DuplicatesOption = Annotated[
    Duplicates, typer.Option(help="What to do with a (row, column) pair that is given more than once.")
]
RowFeaturesOption = Annotated[
    Path | None,
    typer.Option(help="Table of what is known of each row: ids in its first column or in one that is named as --row."),
]
ColFeaturesOption = Annotated[
    Path | None,
    typer.Option(help="The same for columns; numbers and categories. Ids that are only here can be predicted too."),
]
MaxSecondsOption = Annotated[
    float | None, typer.Option(min=0.0, help="Stop after this many seconds, of which the search may take half.")
]
BackendOption = Annotated[
    str, typer.Option(rich_help_panel=SCALE, help="local, or ray: worker processes on this machine or on a cluster.")
]
OutOfCoreOption = Annotated[
    bool,
    typer.Option(
        "--out-of-core",
        rich_help_panel=SCALE,
        help="For parquet files larger than memory: keep blocks of entries on disk.",
    ),
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, rich_help_panel=SCALE, help="Number of Ray worker processes; 2 if not given.")
]
AddressOption = Annotated[
    str | None,
    typer.Option(rich_help_panel=SCALE, help="Address of a Ray cluster; without it Ray is started on this machine."),
]
WorkFolderOption = Annotated[
    Path | None,
    typer.Option(rich_help_panel=SCALE, help="Folder for the blocks; on a cluster, on storage that all nodes share."),
]
BudgetOption = Annotated[
    float | None,
    typer.Option(
        "--memory-budget",
        rich_help_panel=SCALE,
        help="Gigabytes of the other factor's lines that a worker of a folder's fit holds at a time.",
    ),
]
VariableOption = Annotated[
    str | None, typer.Option(help="NetCDF: the variable, if there are several; long tables: the column.")
]
DimOption = Annotated[
    str | None, typer.Option(help="NetCDF: the dimension of the locations; long tables: their column.")
]
LatOption = Annotated[
    str | None, typer.Option(help="Coordinate or column of the latitudes; lat or latitude if not given.")
]
LonOption = Annotated[
    str | None, typer.Option(help="Coordinate or column of the longitudes; lon or longitude if not given.")
]
TimeOption = Annotated[str | None, typer.Option(help="NetCDF: the dimension of the times; long tables: their column.")]
NormalisationOption = Annotated[
    str,
    typer.Option(
        help="NetCDF: normalisation: auto, departures, anomalies, roots, anomalies-trend, zscore-rows, centred-rows, "
        "zscore, zscore-columns or none."
    ),
]
MaskOption = Annotated[
    str,
    typer.Option(help="Grids: which cells to fill: measured (those with any value), all, or a variable of the file."),
]
CovariateOption = Annotated[
    list[str] | None,
    typer.Option("--covariate", help="Coordinate, variable or column known at every location, such as elevation."),
]


@dataclass(frozen=True)
class Backend:
    """Where a fit runs, from options that are checked together: in this process, on Ray, or from disk."""

    on_ray: bool
    in_parts: bool
    workers: int
    address: str | None
    work_folder: Path | None
    budget: float | None = None

    @classmethod
    def of(
        cls,
        table: Path,
        backend: str,
        out_of_core: bool,
        workers: int | None,
        address: str | None,
        work_folder: Path | None,
        budget: float | None = None,
    ) -> Backend:
        if backend not in ("local", "ray"):
            raise typer.BadParameter(f"give local or ray, not {backend!r}.", param_hint="--backend")
        on_ray = backend == "ray"
        in_parts = out_of_core or is_folder(table) or (on_ray and table.suffix.lower() in (".parquet", ".pq"))
        if on_ray and out_of_core:
            raise typer.BadParameter("give either --out-of-core or --backend ray.")
        if not on_ray and (workers is not None or address is not None):
            raise typer.BadParameter("--workers and --address go with --backend ray.")
        if work_folder is not None and not in_parts:
            raise typer.BadParameter("--work-folder is for folders of parquet files.")
        if budget is not None and not (in_parts and budget > 0):
            raise typer.BadParameter("--memory-budget is a number of gigabytes above 0, for folders of parquet files.")
        return cls(on_ray, in_parts, workers or 2, address, work_folder, budget)

    def cluster(self) -> AbstractContextManager[None]:
        """The Ray cluster for a fit of data in memory; without an address the fit starts its own."""
        if self.address is None:
            return nullcontext()
        from lorank.distributed import open_ray

        return open_ray(self.address)

    def check_output(self, output: Path, overwrite: bool) -> None:
        """Refuse a folder that is not an older model, or is one that nobody has said may go, before the fit."""
        from lorank import distributed
        from lorank.models import shards

        if output.suffix == distributed.ONE_FILE:
            return
        shards.check_target(output)
        if shards.is_shards(output) and not overwrite:
            where = url_of(output) or output
            raise InputError(f"{where} holds a model already; choose another name, or replace it with --overwrite.")

    def options(self, threads: int | None) -> dict[str, Any]:
        """The same as arguments of `distributed.fit`."""
        from lorank.kernels.parallel import available_cores

        return {
            "backend": "ray" if self.on_ray else "out-of-core",
            "address": self.address,
            "work_folder": self.work_folder,
            "workers": self.workers if self.on_ray else 1,
            "threads": threads or (1 if self.on_ray else available_cores()),
            "memory_budget": None if self.budget is None else 1e9 * self.budget,
        }


def picture_format(path: Path, other: str = "") -> str:
    """The format that the name of a picture says; checked before the work that goes into it.

    other is what else the command can write, for the message.
    """
    suffix = path.suffix.lower().lstrip(".")
    if suffix not in ("png", "pdf", "svg"):
        names = f".png, .pdf, .svg or {other}" if other else ".png, .pdf or .svg"
        raise typer.BadParameter(f"{path} should end in {names}.", param_hint="--output")
    check_writable(path)
    return suffix


def check_command(model: MatrixCompletion) -> None:
    """Refuse parameters that a model cannot have."""
    from lorank.estimators.parameters import Parameters

    try:
        Parameters(**model.get_params(deep=False))
    except InputError as error:
        raise typer.BadParameter(str(error)) from None


def yes_no_auto(text: str) -> Any:
    """True, False or "auto"."""
    words = {"yes": True, "true": True, "no": False, "false": False, "auto": "auto"}
    if text.lower() not in words:
        raise typer.BadParameter(f"give yes, no or auto, not {text!r}.", param_hint="--biases")
    return words[text.lower()]
