"""Tables and models in a bucket of a real S3-compatible server, which the tests start on the loopback."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
from typer.testing import CliRunner

import lorank
from lorank import distributed, tables
from lorank.cli.app import app
from lorank.errors import InputError
from lorank.files import remote
from lorank.models import shards

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("moto", reason="moto, a server of S3's protocol, is not installed")

NAMES = {"row": "user", "col": "item", "value": "rating"}
OPTIONS = ["--row", "user", "--col", "item", "--value", "rating"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a server with the bucket "lake"; the environment names it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = tmp_path_factory.mktemp("moto") / "log"
    # Its own boto3 is asked nothing; no proxy stands between two ends of the loopback.
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with open(said, "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    patch = pytest.MonkeyPatch()
    try:
        address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            try:
                urlopen(Request(f"{address}/lake", method="PUT"), timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail(f"moto's server did not start: {said.read_text()[-2000:]}")
        for name, value in {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        remote._store.cache_clear()
        yield address
    finally:
        patch.undo()
        remote._store.cache_clear()
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def entries():
    data = lorank.datasets.synthetic(m=60, n=40, rank=2, seed=4).train
    return {"user": data.rows + 10, "item": np.array([f"é{j:x}" for j in range(40)])[data.cols], "rating": data.values}


@pytest.fixture(scope="module")
def lake(server, entries, tmp_path_factory):
    """The same entries in the bucket and on disk: a csv file, a zipped one, and a folder of three Parquet files."""
    here = tmp_path_factory.mktemp("lake")
    (here / "parts").mkdir()
    tables.write(here / "ratings.csv", entries)
    for number in range(3):
        part = {name: column[number::3] for name, column in entries.items()}
        pq.write_table(pa.table(part), here / "parts" / f"{number}.parquet")
    subprocess.run([sys.executable, "-m", "zipfile", "-c", "ratings.csv.zip", "ratings.csv"], cwd=here, check=True)
    for path in here.rglob("*.*"):
        remote.upload(path, f"s3://lake/{path.relative_to(here)}")
    return here


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["-q", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words: str) -> str:
    result = CliRunner().invoke(app, ["-q", *map(str, words)])
    assert result.exit_code != 0
    return " ".join(result.output.split())


def test_addresses():
    assert remote.url_of(Path("s3://lake/a/b.csv")) == "s3://lake/a/b.csv"
    assert remote.url_of("gs://lake/folder/") == "gs://lake/folder"
    for local in ("ratings.csv", "/data/s3/x", "C:/data", "s3", "https://host/x"):
        assert remote.url_of(local) is None


@pytest.mark.parametrize("name", ["ratings.csv", "ratings.csv.zip", "parts/1.parquet"])
def test_a_table_is_read_as_from_disk(lake, name):
    far, columns = tables.read(f"s3://lake/{name}", *NAMES.values())
    near, _ = tables.read(lake / name, *NAMES.values())
    assert columns == tuple(NAMES.values())
    assert far.row_ids.values.tolist() == near.row_ids.values.tolist()
    np.testing.assert_array_equal(far.values, near.values)


def test_a_folder_is_fitted_as_from_disk(lake, tmp_path):
    params = {**NAMES, "rank": 2, "lam": 1.0, "max_iter": 20, "backend": "out-of-core"}
    near = distributed.fit(lake / "parts", **params, output=tmp_path / "near")
    far = distributed.fit("s3://lake/parts", **params, output="s3://lake/far")
    np.testing.assert_array_equal(far.factors.left, near.factors.left)
    loaded, users = lorank.load("s3://lake/far"), near.row_ids.values[:3]
    assert sorted(remote.files_below("s3://lake/far"))[-1].startswith("s3://lake/far/seen")
    for field, expected in zip(loaded.recommend(users, n=4), lorank.load(tmp_path / "near").recommend(users, n=4)):
        np.testing.assert_array_equal(field, expected)


def test_a_model_in_one_file_and_in_shards(lake, tmp_path, monkeypatch):
    observations, _ = tables.read(lake / "ratings.csv", *NAMES.values())
    model = lorank.MatrixCompletion(rank=2, lam=1.0).fit(observations).model_
    rows, cols = observations.row_ids.values[:9], observations.col_ids.values[:9]
    expected = model.predict(rows, cols)
    model.save("s3://lake/one.lorank")
    np.testing.assert_array_equal(lorank.load("s3://lake/one.lorank").predict(rows, cols), expected)
    monkeypatch.setattr(shards, "SHARD", 16)
    shards.write(model, "s3://lake/many", shard=16)
    fetched = []
    real = remote.download
    monkeypatch.setattr(remote, "download", lambda url, target: (fetched.append(url), real(url, target)))
    many = lorank.load("s3://lake/many")
    np.testing.assert_array_equal(many.predict(rows[:1], cols[:1]), expected[:1])
    assert len(fetched) == len(set(fetched))
    assert not [url for url in fetched if "row-3" in url]  # what is not asked for stays where it is
    # A second model in its place, with fewer files: none of the first is left.
    shards.write(model, "s3://lake/many", shard=1000)
    assert not [url for url in remote.files_below("s3://lake/many") if "-1.npy" in url]
    np.testing.assert_array_equal(lorank.load("s3://lake/many").predict(rows, cols), expected)
    remote.upload(lake / "ratings.csv", "s3://lake/many/mine.csv")
    with pytest.raises(InputError, match=r"s3://lake/many holds a model and also mine\.csv"):
        shards.write(model, "s3://lake/many")
    with pytest.raises(InputError, match="s3://lake/parts exists and is not a lorank model"):
        shards.write(model, "s3://lake/parts")


def test_what_is_cut_off_does_not_look_whole(lake, monkeypatch):
    """An upload that fails at any of the files of a folder, over an older model: no model, or the old one."""
    observations, _ = tables.read(lake / "ratings.csv", *NAMES.values())
    model = lorank.MatrixCompletion(rank=2, lam=1.0).fit(observations).model_
    shards.write(model, "s3://lake/cut")
    count, real = len(remote.files_below("s3://lake/cut")), remote.upload
    for fails in (0, 1, count - 1):
        done = []

        def upload(source, url, fails=fails, done=done):
            if len(done) == fails:
                raise OSError("cut off")
            done.append(url)
            real(source, url)

        monkeypatch.setattr(remote, "upload", upload)
        with pytest.raises(InputError, match="cut off"):
            shards.write(model, "s3://lake/cut")
        monkeypatch.setattr(remote, "upload", real)
        assert not shards.is_shards("s3://lake/cut")
        with pytest.raises(InputError, match="s3://lake/cut is a folder"):
            lorank.load("s3://lake/cut")
        for url in remote.files_below("s3://lake/cut"):
            remote._delete(url)
        shards.write(model, "s3://lake/cut")
    # A writer that fails leaves nothing, and an older table as it was.
    tables.write("s3://lake/table.csv", {"a": [1]})
    with pytest.raises(TypeError), tables.appending(Path("s3://lake/table.csv")) as append:
        append({"a": object()})
    assert remote.read_bytes("s3://lake/table.csv").split() == [b"a", b"1"]


def test_from_the_shell(lake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = [*OPTIONS, "--rank", "2", "--lam", "1"]
    facts = json.loads(run("fit", "s3://lake/ratings.csv", *common, "-o", "s3://lake/m.lorank", "--json"))
    assert facts["model"] == "s3://lake/m.lorank"
    assert facts["bytes"] == remote.size("s3://lake/m.lorank")
    run("fit", lake / "ratings.csv", *common, "-o", "m.lorank")
    run("predict", "s3://lake/m.lorank", "s3://lake/ratings.csv", "-o", "s3://lake/predicted.parquet")
    run("predict", "m.lorank", lake / "ratings.csv", "-o", "predicted.parquet")
    remote.download("s3://lake/predicted.parquet", tmp_path / "far.parquet")
    assert pq.read_table("far.parquet").equals(pq.read_table("predicted.parquet"))
    run("fit", "s3://lake/parts", *common, "--out-of-core", "-o", "s3://lake/shards")
    lists = run("recommend", "s3://lake/shards", "--row", "11", "-n", "3", "--json")
    run("fit", lake / "parts", *common, "--out-of-core", "-o", "shards")
    assert json.loads(lists) == json.loads(run("recommend", "shards", "--row", "11", "-n", "3", "--json"))
    assert json.loads(run("inspect", "s3://lake/shards", "--json"))["model"] == "s3://lake/shards"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "far.parquet",
        "m.lorank",
        "predicted.parquet",
        "shards",
    ]


def test_what_is_wrong_is_one_sentence(lake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"There is no s3://lake/none\.csv\."):
        tables.read("s3://lake/none.csv")
    with pytest.raises(InputError, match=r"There is no s3://lake/none\.lorank\."):
        lorank.load("s3://lake/none.lorank")
    with pytest.raises(InputError, match="s3://nowhere/parts cannot be read: there is no such bucket"):
        distributed.fit("s3://nowhere/parts", **NAMES)
    remote.upload(lake / "ratings.csv", "s3://lake/empty/ratings.csv")
    with pytest.raises(InputError, match="There is no Parquet file in s3://lake/empty"):
        distributed.fit("s3://lake/empty", **NAMES)
    fit = ["fit", "s3://lake/parts", *OPTIONS, "--out-of-core", "--lam", "1"]
    said = refused(*fit, "-o", "s3://nowhere/m.lorank")
    assert "s3://nowhere/m.lorank cannot be written: there is no such bucket" in said
    assert "The work folder must be on a disk" in refused(*fit, "--work-folder", "s3://lake/work", "-o", "m")
    assert "A checkpoint must be on a disk" in refused(*fit, "--checkpoint", "s3://lake/c", "-o", "m")
    with pytest.raises(InputError, match="A checkpoint must be on a disk"):
        distributed.fit("s3://lake/parts", **NAMES, checkpoint="s3://lake/c", backend="out-of-core")
    remote.upload(lake / "ratings.csv", "s3://lake/broken/0.parquet")
    with pytest.raises(InputError, match=r"0\.parquet is damaged or not Parquet"):
        distributed.fit("s3://lake/broken", **NAMES, backend="out-of-core")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"pip install 'lorank\[cloud\]'"):
        tables.read("hf://datasets/lorank/ratings/ratings.csv")


def test_a_store_that_does_not_answer(lake, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    remote._store.cache_clear()
    try:
        with pytest.raises(InputError, match=r"s3://lake/ratings\.csv cannot be read: the store does not answer"):
            tables.read("s3://lake/ratings.csv")
    finally:
        remote._store.cache_clear()


def test_credentials(lake, server, monkeypatch):
    """Keys that are wrong, and a user who may only read."""
    import boto3

    iam = boto3.client("iam", endpoint_url=server, region_name="us-east-1")
    policy = {"Effect": "Allow", "Action": ["s3:Get*", "s3:List*", "s3:HeadObject"], "Resource": "*"}
    iam.create_user(UserName="reader")
    document = json.dumps({"Version": "2012-10-17", "Statement": [policy]})
    iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=document)
    key = iam.create_access_key(UserName="reader")["AccessKey"]

    def checked(after: str) -> None:
        """Let the server look at who asks, after so many questions."""
        words = {"Content-Type": "text/plain"}
        urlopen(Request(f"{server}/moto-api/reset-auth", after.encode(), words, method="POST")).close()
        remote._store.cache_clear()

    try:
        checked("0")
        with pytest.raises(
            InputError, match=r"s3://lake/ratings.csv cannot be read: access is denied; give credentials"
        ):
            tables.read("s3://lake/ratings.csv", *NAMES.values())
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        remote._store.cache_clear()
        tables.read("s3://lake/ratings.csv", *NAMES.values())
        with pytest.raises(
            InputError, match=r"s3://lake/new.csv cannot be written: access is denied; give credentials"
        ):
            tables.write("s3://lake/new.csv", {"a": [1]})
        words = ["fit", lake / "ratings.csv", *OPTIONS, "--lam", "1", "-o", "s3://lake/new.lorank"]
        assert "s3://lake/new.lorank cannot be written: access is denied" in refused(*words)
    finally:
        checked("inf")
