"""What the server answers to anything that its OpenAPI description allows or forbids, by schemathesis."""

import pytest

from lorank.serving.questions import QUESTIONS

pytestmark = pytest.mark.slow
schemathesis = pytest.importorskip("schemathesis")


@pytest.fixture(scope="module")
def schema(model, tmp_path_factory):
    from lorank.serving.app import Service, application
    from lorank.serving.questions import Limits

    path = tmp_path_factory.mktemp("served") / "model.lorank"
    model.save(path)
    # A batch that is too large is found before the body is: 413 is no refusal to schemathesis.
    service = Service(str(path), hosts=("localhost", "testserver"), limits=Limits(batch=50))
    return schemathesis.openapi.from_asgi("/openapi.json", application(service))


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("question", list(QUESTIONS))
def test_every_answer_is_one_that_is_described(schema, question, mode):
    """The status is listed, the body has the shape that is listed for it, and what is forbidden is refused.

    That all that is allowed is answered is not checked: whether an id is known, no description says.
    """
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    checks = CHECKS.get_all()
    left_out = [check for check in checks if check.__name__ == "positive_data_acceptance"]
    assert left_out
    operation = schema[f"/v1/{question}"]["POST"]
    cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))
    quick = settings(
        max_examples=60,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @quick
    @given(case=cases)
    def ask(case):
        case.call_and_validate(excluded_checks=left_out)

    ask()
