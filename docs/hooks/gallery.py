"""Makes the gallery as the site is built: each example is run, and shown with what it printed and drew."""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

EXAMPLES = Path(__file__).parents[2] / "examples"


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs: add the page and its pictures."""
    parts = ["# Gallery", "Each of these runs as it stands; this page shows what they printed and drew."]
    for example in sorted(EXAMPLES.glob("*.py")):
        source = example.read_text()
        title, *rest = (ast.get_docstring(ast.parse(source)) or example.stem).split("\n\n", 1)
        name, _, more = title.partition(": ")
        code = source.split('"""', 2)[2].strip()
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, example], capture_output=True, text=True, cwd=folder)
            if done.returncode:
                raise RuntimeError(f"{example} failed:\n{done.stderr}")
            pictures = [(path.name, path.read_bytes()) for path in sorted(Path(folder).glob("*.png"))]
        parts += [f"## {name}", "\n\n".join([more[:1].upper() + more[1:], *rest])]
        for picture, content in pictures:
            files.append(File.generated(config, f"pictures/{picture}", content=content))
            parts.append(f"![{name}](pictures/{picture})")
        parts += [f"```python\n{code}\n```", f"It prints:\n\n```text\n{done.stdout.strip()}\n```"]
    files.append(File.generated(config, "gallery.md", content="\n\n".join(parts)))
    return files
