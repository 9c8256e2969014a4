"""A small model with titles, in a file, and an application that serves it."""

import pytest
from serving_model import fitted

pytest.importorskip("starlette")
pytest.importorskip("httpx2")


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture
def path(model, tmp_path):
    model.save(tmp_path / "model.lorank")
    return tmp_path / "model.lorank"


@pytest.fixture
def client(path):
    from starlette.testclient import TestClient

    from lorank.serving.app import Service, application
    from lorank.serving.questions import Limits

    service = Service(str(path), hosts=("testserver",), limits=Limits(body=5000, batch=50, length=20))
    with TestClient(application(service)) as client:
        yield client
