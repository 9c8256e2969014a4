"""What the server answers: the same as the model, and one sentence for each mistake."""

import json
import re
import socket
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from serving_model import fitted
from starlette.testclient import TestClient

import lorank
from lorank.serving.app import QUICK, Service, _work, application
from lorank.serving.questions import QUESTIONS, Limits


def ask(client, name, **given):
    answer = client.post(f"/v1/{name}", json=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_predictions_are_the_models_and_unknown_ids_are_named(client, model):
    found = ask(client, "predict", rows=["u1", "u2", "nobody"], cols=[100, 101, 7], interval=0.9)["predictions"]
    value, lower, upper = model.predict(["u1", "u2"], [100, 101], interval=0.9)
    assert [line["value"] for line in found[:2]] == value.tolist()
    assert [line["lower"] for line in found[:2]] == pytest.approx(lower.tolist())
    assert [line["upper"] for line in found[:2]] == pytest.approx(upper.tolist())
    assert found[2]["unknown"] == ["row", "col"]
    assert "unknown" not in found[0]
    assert [line["col"] for line in ask(client, "predict", rows=["u1"], cols=["100", "101"])["predictions"]] == [
        100,
        101,
    ]


def test_lists_are_the_models_in_the_order_of_the_rows(client, model):
    found = ask(client, "recommend", rows=["u5", "u1", "u5"], n=3, deny=[103])["lists"]
    assert [own["row"] for own in found] == ["u5", "u1", "u5"]
    assert found[0] == found[2]
    for own in found:
        expected = model.recommend([own["row"]], 3, deny=[103])
        assert [item["col"] for item in own["items"]] == expected.cols.tolist()
        assert [item["score"] for item in own["items"]] == pytest.approx(expected.scores.tolist())
        assert own["items"][0]["title"].startswith("<i>Film</i>")


def test_likes_and_new_rows(client, model):
    found = ask(client, "similar", cols=[100, 103], n=4)["lists"]
    assert [item["col"] for item in found[0]["items"]] == model.similar(col=100, n=4)[0].tolist()
    (both,) = ask(client, "similar", cols=[100, 103], but_not=[110], n=4)["lists"]
    assert [item["col"] for item in both["items"]] == model.similar(col=[100, 103], but_not=[110], n=4)[0].tolist()
    assert ask(client, "similar", rows=["u1"])["lists"][0]["items"][0]["row"].startswith("u")
    entries = [{"col": 100, "value": 5}, {"col": 103, "value": 1.5}]
    new = model.fold_in((np.array(["x", "x"]), np.array([100, 103]), np.array([5, 1.5])))
    expected = new.recommend(n=5)
    found = ask(client, "fold-in", entries=entries, n=5)["items"]
    assert [item["col"] for item in found] == expected.cols.tolist()
    np.testing.assert_allclose([item["score"] for item in found], expected.scores)


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("predict", [], "must be a JSON object"),
        ("predict", {"rows": ["u1"]}, "cols must be a list of ids"),
        ("predict", {"rows": ["u1"], "cols": [True]}, "cols must be a list of ids"),
        ("predict", {"rows": ["u1", "u2"], "cols": [100, 101, 102]}, "As many rows as columns"),
        ("predict", {"rows": ["u1"], "cols": [100], "interval": 2}, "interval must be a number from 0.01"),
        ("predict", {"rows": ["u1"], "cols": [10**30]}, "too large"),
        ("recommend", {"rows": ["nobody"]}, "Unknown row 'nobody'"),
        ("recommend", {"rows": ["u1"], "n": 0}, "n must be a whole number from 1 to 20"),
        ("recommend", {"rows": ["u1"], "n": 1.5}, "n must be a whole number"),
        ("recommend", {"rows": ["u1"] * 51}, "at most 50"),
        ("recommend", {"rows": ["u1"], "size": 3}, "no field 'size'"),
        ("recommend", {"rows": ["u1"], "seen": "yes"}, "seen must be true or false"),
        ("similar", {"rows": ["u1"], "cols": [100]}, "Give either rows or cols"),
        ("similar", {}, "Give either rows or cols"),
        ("fold-in", {"entries": []}, "entries must be a list of objects"),
        ("fold-in", {"entries": [{"col": 100}]}, "needs a value"),
        ("fold-in", {"entries": [{"col": 7, "value": 1}]}, "Unknown column 7"),
        ("fold-in", {"entries": [{"col": [100, 101], "value": 1}]}, "col must be one id"),
        ("fold-in", {"entries": [{"col": 100, "value": 1}, {"col": 100, "value": 2}]}, "twice|more than once"),
    ],
)
def test_mistakes_get_one_sentence(client, name, given, sentence):
    answer = client.post(f"/v1/{name}", json=given)
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]
    assert re.search(sentence, answer.json()["error"]), answer.text
    assert "\n" not in answer.json()["error"]


def test_what_is_no_request(client):
    headers = {"content-type": "application/json"}
    assert client.post("/v1/predict", content=b"{", headers=headers).status_code == 400
    assert client.post("/v1/predict", content=b"[" * 4000, headers=headers).status_code == 400
    assert client.post("/v1/predict", content=b" " * 6000, headers=headers).status_code == 413
    assert client.post("/v1/predict", data={"rows": "u1"}).status_code == 415
    assert "answers POST" in client.get("/v1/predict").json()["error"]
    assert client.get("/nothing").json() == {"error": "There is nothing here; see /openapi.json."}
    assert client.get("/v1/health", headers={"host": "evil.example"}).status_code == 400


def test_health_counts_and_description(client):
    health = client.get("/v1/health").json()
    assert (health["status"], health["rows"], health["columns"]) == ("ok", 40, 25)
    ask(client, "recommend", rows=["u1", "u2"])
    client.post("/v1/recommend", json={})
    text = client.get("/metrics").text
    assert 'lorank_requests_total{path="recommend",status="2xx"} 1' in text
    assert 'lorank_requests_total{path="recommend",status="4xx"} 1' in text
    assert 'lorank_request_seconds_count{path="recommend"} 2' in text
    assert "lorank_answered_rows_total 2" in text
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {
        f"/v1/{name}" for name in ("predict", "recommend", "similar", "fold-in", "health")
    }


def test_the_token_is_asked_for(path):
    token = "a-token-of-24-characters"
    with TestClient(application(Service(str(path), token, ("testserver",)))) as client:
        assert client.get("/v1/health").status_code == 200
        for address in ("/metrics", "/", "/openapi.json"):
            assert client.get(address).status_code == 401
        given = {"rows": ["u1"]}
        assert client.post("/v1/recommend", json=given).status_code == 401
        assert client.post("/v1/recommend", json=given, headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.post("/v1/recommend", json=given, headers={"authorization": f"Bearer {token}"}).status_code == 200
        # A browser gets a cookie, and the token leaves the address bar.
        first = client.get(f"/?token={token}", follow_redirects=False)
        assert first.status_code == 303
        assert "httponly" in first.headers["set-cookie"].lower()
        assert "samesite=strict" in first.headers["set-cookie"].lower()
        assert client.get("/").status_code == 200


def test_a_new_file_takes_the_place_of_the_old_one(client, path):
    before = client.get("/v1/health").json()["model"]
    first = ask(client, "predict", rows=["u1"], cols=[100])
    path.write_bytes(b"nonsense")  # not a model: the old one stays
    time.sleep(1.2)
    assert ask(client, "predict", rows=["u1"], cols=[100]) == first
    assert client.get("/v1/health").json()["model"] == before
    other = fitted(seed=1)
    other.save(path)
    for _ in range(50):
        time.sleep(0.1)
        if (
            client.get("/v1/health").json()["model"] != before
            and ask(client, "predict", rows=["u1"], cols=[100]) != first
        ):
            break
    assert ask(client, "predict", rows=["u1"], cols=[100])["predictions"][0]["value"] == other.predict(["u1"], [100])[0]
    assert "lorank_failed_model_swaps_total 1" in client.get("/metrics").text


def test_clicks_need_no_values(tmp_path):
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((30, 12)) < 0.3)
    data = lorank.Observations.from_coo(rows, cols, np.ones(rows.size), (30, 12))
    model = lorank.MatrixCompletion(goal="ranking", rank=3, lam=1.0, random_state=0).fit(data).model_
    model.save(tmp_path / "clicks.lorank")
    with TestClient(application(Service(str(tmp_path / "clicks.lorank"), hosts=("testserver",)))) as client:
        found = ask(client, "fold-in", entries=[{"col": 1}, {"col": 4}], n=3)
        assert found == ask(client, "fold-in", entries=[{"col": 1, "value": 1}, {"col": 4, "value": 1}], n=3)
        assert ask(client, "predict", rows=[0, 30], cols=[1, 1])["predictions"][1]["value"] == 0


@pytest.mark.parametrize("shards", [False, True])
def test_a_null_character_at_the_end_is_part_of_an_id(model, tmp_path, shards):
    """numpy's text drops it: whoever asked for "u1\\0" was answered for "u1"."""
    model.save(tmp_path / "model", shards=shards)
    with TestClient(application(Service(str(tmp_path / "model"), hosts=("testserver",)))) as client:
        for rows in (["u1\0"], ["u1\0", 7]):
            answer = client.post("/v1/recommend", json={"rows": rows})
            assert answer.status_code == 400
            assert "Unknown row" in answer.json()["error"]
        (line,) = ask(client, "predict", rows=["u1\0"], cols=[100])["predictions"]
        assert (line["row"], line["unknown"]) == ("u1\0", ["row"])


def test_shards_are_served_too(model, tmp_path):
    model.save(tmp_path / "shards", shards=True)
    with TestClient(application(Service(str(tmp_path / "shards"), hosts=("testserver",)))) as client:
        found = ask(client, "recommend", rows=["u1"], n=3)["lists"][0]["items"]
    assert [item["col"] for item in found] == model.recommend(["u1"], 3).cols.tolist()
    assert json.dumps(found)


def test_a_row_that_is_asked_for_twice_has_each_column_once(client):
    """Also where fewer columns are left than are asked for."""
    for own in ask(client, "recommend", rows=["u1", "u1", "u1"], n=20, allow=[100, 101, 102], seen=True)["lists"]:
        assert sorted(item["col"] for item in own["items"]) == [100, 101, 102]


def test_lists_have_so_many_items_in_all(path):
    limits = Limits(items=100)
    with TestClient(application(Service(str(path), hosts=("testserver",), limits=limits))) as client:
        for name, given in (("recommend", {"rows": ["u1"] * 11}), ("similar", {"cols": [100] * 11})):
            answer = client.post(f"/v1/{name}", json={**given, "n": 10})
            assert answer.status_code == 400
            assert answer.json() == {"error": "11 lists of 10 have more than 100 items; ask for fewer at once."}


def test_one_large_question_keeps_nobody_waiting():
    """Whatever takes longer than some milliseconds goes to a thread, with the items that are to be written."""
    assert _work("recommend", {"rows": ["u"], "n": 10}, (1000, 2000), 20) <= QUICK
    assert _work("predict", {"rows": ["u"] * 100, "cols": ["c"] * 100}, (1000, 2000), 20) <= QUICK
    assert _work("recommend", {"rows": ["u"] * 100, "n": 100}, (10, 10), 2) > QUICK
    assert _work("similar", {"cols": ["c"] * 1000, "n": 10}, (10, 10), 2) > QUICK
    assert _work("predict", {"rows": ["u"] * 10_000, "cols": ["c"] * 10_000}, (10, 10), 2) > QUICK


def test_a_question_that_takes_too_long_counts_until_it_ends(path, monkeypatch):
    """A thread cannot be ended: were it forgotten, any number of them could be under way."""
    ended, asked = threading.Event(), []

    def slow(model, given, limits):
        asked.append(given)
        ended.wait(30)
        return {}

    monkeypatch.setitem(QUESTIONS, "predict", slow)
    monkeypatch.setattr("lorank.serving.app.QUICK", -1)
    monkeypatch.setattr("lorank.serving.app.WAITING", 2)
    service = Service(str(path), hosts=("testserver",), limits=Limits(seconds=0.1))
    with TestClient(application(service)) as client:
        try:
            found = [client.post("/v1/predict", json={}).json()["error"] for _ in range(4)]
        finally:
            ended.set()
    assert len(asked) == 2
    assert ["takes more than" in error for error in found] == [True, True, False, False]


def test_no_address_leads_to_another_host(client):
    assert client.get("/v1/health/", follow_redirects=False).status_code == 404


@pytest.fixture
def server(path):
    """A server with its own protocol, in a thread; its limits are short."""
    uvicorn = pytest.importorskip("uvicorn")
    from lorank.serving import patience

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patience, "SECONDS", 0.3)
        app = application(Service(str(path), limits=Limits(seconds=0.3)))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, port=port, http=patience.PatientProtocol, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield server
        server.should_exit = True
        thread.join()


@pytest.fixture
def listening(server):
    """Its port."""
    return server.config.port


def _all_of(port, *parts):
    """What the server sends until it closes, for parts that are sent with a pause after each."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(0.05)
        found = b""
        with suppress(ConnectionError):
            while more := connection.recv(1 << 16):
                found += more
        return found


def test_clients_that_never_end_are_left(listening):
    head = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n"
    post = (
        b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n"
    )
    assert _all_of(listening) == b""
    assert _all_of(listening, head) == b""
    assert _all_of(listening, head + b"\r\n", head).count(b'"status":"ok"') == 1
    assert _all_of(listening, head + b"X: " + b"a" * 100_000) == b""
    assert _all_of(listening, post + b"{").startswith(b"HTTP/1.1 408")
    assert _all_of(listening, head + b"Connection: close\r\n", b"\r\n").startswith(b"HTTP/1.1 200")


def test_a_client_that_does_not_take_its_answer_is_left(server, listening):
    """Answers that nobody reads stayed in memory for as long as the client liked."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", listening))
        connection.sendall(200 * b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")  # pages of some 75 kB each
        end = time.monotonic() + 20
        while not server.server_state.connections or server.server_state.total_requests < 2:
            assert time.monotonic() < end
            time.sleep(0.01)
        while server.server_state.connections:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_wrong_method_is_told_the_right_one_and_null_is_no_number(client):
    answer = client.get("/v1/predict")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert client.post("/v1/health").headers["allow"] == "GET"
    for field in ("n", "allow", "min_count", "diversity"):
        answer = client.post("/v1/recommend", json={"rows": ["u1"], field: None})
        assert answer.status_code == 400, field
        assert field in answer.json()["error"]


def test_titles_come_from_a_table_beside_the_model(model, tmp_path):
    from dataclasses import replace

    from starlette.testclient import TestClient

    from lorank.serving.app import Service, application

    path, table = tmp_path / "plain.lorank", tmp_path / "films.csv"
    replace(model, col_titles={}).save(path)
    table.write_text("film,title\n" + "".join(f"{j},The {j}\n" for j in range(100, 125)))
    with TestClient(application(Service(str(path), hosts=("testserver",), titles=str(table)))) as client:
        items = client.post("/v1/recommend", json={"rows": ["u1"], "n": 3}).json()["lists"][0]["items"]
        assert [item["title"] for item in items] == [f"The {item['col']}" for item in items]
        assert "The 100" in client.get("/").text
