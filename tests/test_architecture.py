"""The rooms of the package and who may use which: every import, also inside functions, goes strictly downward."""

import ast
import subprocess
import sys
from pathlib import Path

import lorank

SOURCE = Path(lorank.__file__).parent
# From the ground up. A room may import only rooms of an earlier line; rooms of one line do not know each other.
LAYERS = [
    {"errors", "types"},
    {"files", "memory", "progress", "results_table"},
    {"kernels"},
    {"observations", "losses"},
    {"linalg"},
    {"regularizers"},
    {"side_information"},
    {"problems"},
    {"solvers"},
    {"registry"},
    {"models"},
    {"tuning"},
    {"estimators"},
    {"tables"},
    {"distributed"},
    {"spatial"},
    {"datasets"},
    {"plots"},
    {"experiments"},
    {"serving"},
    {"cli"},
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
# Loaded only where they are used, never by `import lorank` or by fitting.
HEAVY = {"matplotlib", "ray", "xarray", "polars", "pandas", "typer", "rich", "narwhals", "pyarrow", "safetensors"}
HEAVY |= {"starlette", "uvicorn"}


def imports(path: Path) -> dict[str, int]:
    """Full names of the modules and names that a file imports anywhere in it, with the line of each."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name: node.lineno for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found[node.module] = node.lineno
            found |= {f"{node.module}.{alias.name}": node.lineno for alias in node.names}
    return found


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_imports_go_downward():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        room = room_of(path)
        if room in ("__init__", "__main__"):
            continue
        assert room in LEVEL, f"{room} has no layer in tests/test_architecture.py"
        for name, line in imports(path).items():
            target = name.split(".")[1] if name.startswith("lorank.") else None
            if target in LEVEL and target != room and LEVEL[target] >= LEVEL[room]:
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {name}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_no_module_imports_itself_through_others():
    """No cycle among modules, imports inside functions and for type checkers included."""
    modules = {module_of(path): path for path in SOURCE.rglob("*.py")}
    # A package's __init__ gathers its modules; what counts is which module a name comes from.
    graph = {
        name: {target for target in imports(path) if target in modules and target != name}
        for name, path in modules.items()
        if path.name != "__init__.py"
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for target in graph.get(name, ()):
                visit(target, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_only_optional_libraries_are_imported_inside_functions():
    inside = []
    for path in SOURCE.rglob("*.py"):
        if room_of(path) in ("__init__", "__main__", "cli"):  # the command line loads what a command needs
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for part in ast.walk(node):
                    names = [part.module] if isinstance(part, ast.ImportFrom) and part.module else []
                    names += [alias.name for alias in part.names] if isinstance(part, ast.Import) else []
                    inside += [f"{path.relative_to(SOURCE)}:{part.lineno} {n}" for n in names if n.startswith("lorank")]
    assert not inside, "\n".join(inside)


def test_only_kernels_import_numba():
    users = {
        room_of(path)
        for path in SOURCE.rglob("*.py")
        if {"numba", "llvmlite"} & {name.split(".")[0] for name in imports(path)}
    }
    assert users == {"kernels"}


def test_importing_and_fitting_loads_nothing_heavy():
    code = (
        "import sys, lorank, numpy as np\n"
        "assert not {'numba', 'sklearn', 'scipy'} & set(sys.modules), 'import lorank is not lazy'\n"
        # A second of each worker's start, and of commands that only read a model.
        "import lorank.models, lorank.distributed.prepare, lorank.distributed.exporting, lorank.distributed.sampling\n"
        "assert 'sklearn' not in sys.modules, 'a model or a worker needs scikit-learn'\n"
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
