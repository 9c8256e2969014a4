"""Commands run in an empty folder, as from a shell."""

import json

import pytest
from typer.testing import CliRunner

from lorank.cli import app

EXPLICIT = ["--rank", "2", "--lam", "0.5", "--theta", "1", "--biases", "yes"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture
def fails(run):
    """Run a command that must fail with code 1 and one sentence."""

    def fails(*words):
        code, out, err = run(*words)
        errors = [line for line in err.splitlines() if line.startswith("Error: ")]
        assert (code, out, len(errors)) == (1, "", 1), (code, out, err)
        assert "Traceback" not in err
        return errors[0]

    return fails


@pytest.fixture
def model(run):
    """A model of made-up ratings, fitted with given parameters."""
    assert run("sample", "ratings.csv", "--test", "test.csv", "--users", 80, "--films", 40, "--ratings", 1500)[0] == 0
    code, out, err = run("fit", "ratings.csv", "-o", "model.lorank", "--json", "--validation", "0.1", *EXPLICIT)
    assert code == 0, err
    return json.loads(out)
