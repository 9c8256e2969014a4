"""The README's lines run as they stand."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_ten_lines(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(README), "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith("candidate")
    assert "offsets alone" in said
    assert said.count("<- chosen") == 1
