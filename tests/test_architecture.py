"""The rooms of the house and who may enter which: imports go strictly downward."""

import ast
import subprocess
import sys
from pathlib import Path

import lorank

SOURCE = Path(lorank.__file__).parent
FLOORS = [
    {"errors", "identifiers", "frames", "tables"},
    {"kernels"},
    {"observations", "losses"},
    {"linalg"},
    {"regularizers"},
    {"problems"},
    {"solvers", "bayes"},
    {"methods", "catalogue"},
    {"estimators", "datasets", "distributed", "io", "normalisation", "spatial", "sensing"},
    {"experiments", "plots", "demo"},
    {"cli"},
]
LEVEL = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# Loaded only where they are used, never by `import lorank` or by fitting.
HEAVY = {"matplotlib", "ray", "xarray", "polars", "pandas", "typer", "rich", "narwhals", "pyarrow", "safetensors"}


def imports(path: Path, whole_file: bool) -> set[str]:
    """Full names of the modules that a file imports: anywhere in it, or at its top level only."""
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree) if whole_file else tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_imports_go_downward():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        room = room_of(path)
        if room == "__init__":
            continue
        assert room in LEVEL, f"{room} has no floor in tests/test_architecture.py"
        for name in imports(path, whole_file=False):
            target = name.split(".")[1] if name.startswith("lorank.") else None
            if target in LEVEL and target != room and LEVEL[target] > LEVEL[room]:
                wrong.append(f"{path.relative_to(SOURCE)} imports {name}")
    assert not wrong


def test_only_kernels_import_numba():
    users = {room_of(path) for path in SOURCE.rglob("*.py") if {"numba", "llvmlite"} & imports(path, whole_file=True)}
    assert users == {"kernels"}


def test_importing_and_fitting_loads_nothing_heavy():
    code = (
        "import sys, lorank, numpy as np\n"
        "assert not {'numba', 'sklearn', 'scipy'} & set(sys.modules), 'import lorank is not lazy'\n"
        "import sklearn.utils\n"  # which loads pandas by itself where it is installed
        "before = set(sys.modules)\n"
        "lorank.MatrixCompletion(rank=1, lam=0.1).fit(np.array([[1., np.nan], [2., 3.]]))\n"
        f"print(sorted({HEAVY!r} & set(sys.modules) - before))"
    )
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_files_stay_short():
    long = {path.name: n for path in SOURCE.rglob("*.py") if (n := len(path.read_text().splitlines())) > 350}
    assert not long


def test_public_names_resolve():
    for name in lorank.__all__:
        assert getattr(lorank, name) is not None
