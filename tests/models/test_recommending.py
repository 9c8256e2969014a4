"""Top lists against a full sort, likeness against its definition, ranking scores against theirs."""

import math

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

import lorank
from lorank import InputError
from lorank.models import recommending as recommendation
from lorank.models.ranking_metrics import ranking_scores


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 30)) + rng.standard_normal(30)
    X[rng.random(X.shape) < 0.4] = np.nan
    X[7] = rng.standard_normal(30)  # this row has seen all but two
    X[7, [4, 9]] = np.nan
    ids = [f"row {i}" for i in range(50)], [f"col {j}" for j in range(30)]
    observations = lorank.Observations.from_dense(X, *ids)
    return lorank.MatrixCompletion(rank=3, lam=0.1, biases=True, random_state=0).fit(observations)


@pytest.mark.parametrize(("block", "tile", "entries"), [(1, 4, 9), (100, 7, 1 << 22), (1 << 22, 1 << 14, 1 << 22)])
def test_best_unseen_columns_of_all_rows(model, block, tile, entries, monkeypatch):
    for name, value in (("BLOCK", block), ("TILE", tile), ("SEEN_AT_ONCE", entries)):
        monkeypatch.setattr(recommendation, name, value)
    seen = model.observations_
    scores = model.result_.factors.dense()
    scores[seen.rows, seen.cols] = -np.inf
    ranking = lorank.recommend(model, n=5)
    for i in range(50):
        mine = ranking.rows == f"row {i}"
        best = np.argsort(-scores[i])[: min(5, np.isfinite(scores[i]).sum())]
        assert ranking.cols[mine].tolist() == [f"col {j}" for j in best]
        np.testing.assert_allclose(ranking.scores[mine], scores[i, best])
    assert (ranking.rows == "row 7").sum() == 2
    parts = list(model.model_.rankings(n=5))
    assert len(parts) >= min(50, 50 * min(30, tile) // block)
    np.testing.assert_array_equal(np.concatenate([part.cols for part in parts]), ranking.cols)
    np.testing.assert_array_equal(model.recommend(n=5).scores, ranking.scores)


def test_rows_by_name_and_seen_ones(model):
    ranking = lorank.recommend(model, ["row 7", "row 3"], n=100, seen=True)
    assert ranking.rows.tolist() == ["row 7"] * 30 + ["row 3"] * 30
    np.testing.assert_allclose(ranking.scores[30:], np.sort(model.result_.factors.dense()[3])[::-1])
    with pytest.raises(InputError, match="Unknown row 'row 99'"):
        lorank.recommend(model, ["row 99"])
    with pytest.raises(InputError, match="n must be at least 1"):
        lorank.recommend(model, n=0)
    with pytest.raises(InputError, match="n must be a whole number, not ndarray"):
        lorank.recommend(model, n=np.array([1, 2]))
    with pytest.raises(InputError, match="at least one row"):
        lorank.recommend(model, [])


@pytest.mark.parametrize("tile", [7, 1 << 14])
def test_likeness_is_the_cosine_of_factors(model, tile, monkeypatch):
    monkeypatch.setattr(recommendation, "TILE", tile)
    for side, factor in (("row", model.factors_[0]), ("col", model.factors_[1])):
        unit = factor / np.linalg.norm(factor, axis=1, keepdims=True)
        cosine = unit @ unit[4]
        order = [i for i in np.argsort(-cosine) if i != 4][:6]
        names, found = lorank.similar(model, n=6, **{side: f"{side} 4"})
        assert names.tolist() == [f"{side} {i}" for i in order]
        np.testing.assert_allclose(found, cosine[order])
    assert lorank.similar(model, col="col 0", n=1000)[0].size == 29
    with pytest.raises(InputError, match="either a row or a column"):
        lorank.similar(model)


def test_what_was_seen(model):
    seen = model.observations_
    known = np.zeros(seen.shape, bool)
    known[seen.rows, seen.cols] = True
    rows, cols = (index.ravel()[::-1] for index in np.indices(seen.shape))
    np.testing.assert_array_equal(recommendation.was_seen(model.model_, rows, cols), known[rows, cols])


def test_ranking_scores_by_their_definitions(model):
    rng = np.random.default_rng(1)
    seen = model.observations_
    unseen = np.ones(seen.shape, bool)
    unseen[seen.rows, seen.cols] = False
    rows, cols = np.nonzero(unseen & (rng.random(seen.shape) < 0.5))
    values = rng.standard_normal(rows.size)
    test = lorank.Observations.from_coo(rows, cols, values, seen.shape, seen.row_ids, seen.col_ids)
    scores = model.result_.factors.dense()
    scores[~unseen] = -np.inf
    recalls, gains = [], []
    for i in range(50):
        right = set(cols[(rows == i) & (values >= 0.2)].tolist())
        if right:
            best = np.argsort(-scores[i])[:5].tolist()
            hits = [j in right for j in best]
            ideal = sum(1 / math.log2(t + 2) for t in range(min(5, len(right))))
            gains.append(sum(hit / math.log2(t + 2) for t, hit in enumerate(hits)) / ideal)
            recalls.append(sum(hits) / len(right))
    found = ranking_scores(model.model_, test, 5, 0.2)
    assert found["recall@5"] == pytest.approx(np.mean(recalls))
    assert found["ndcg@5"] == pytest.approx(np.mean(gains))
    with pytest.raises(InputError, match="No test value is high enough"):
        ranking_scores(model.model_, test, 5, 1e9)


def lists(ranking):
    return {row: ranking.cols[ranking.rows == row].tolist() for row in np.unique(ranking.rows).tolist()}


@pytest.mark.parametrize("tile", [7, 1 << 14])
def test_allowed_and_denied_columns(model, tile, monkeypatch):
    """Against lists of all columns, from which those that are not wanted are struck out."""
    monkeypatch.setattr(recommendation, "TILE", tile)
    everything = lists(lorank.recommend(model, n=30))
    few, none = [f"col {j}" for j in range(1, 30, 3)], [f"col {j}" for j in range(0, 30, 2)]
    for row, found in lists(lorank.recommend(model, n=30, allow=few)).items():
        assert found == [col for col in everything[row] if col in few]
    for row, found in lists(lorank.recommend(model, n=30, deny=[*none, "unheard of"])).items():
        assert found == [col for col in everything[row] if col not in none]
    own = lists(lorank.recommend(model, n=30, allow={"row 3": few}, deny={"row 4": none, "row 99": few}))
    assert own["row 3"] == [col for col in everything["row 3"] if col in few]
    assert own["row 4"] == [col for col in everything["row 4"] if col not in none]
    assert own["row 5"] == everything["row 5"]
    with pytest.raises(InputError, match="Unknown column 'unheard of'"):
        lorank.recommend(model, n=3, allow=["unheard of"])


def test_columns_with_few_entries_are_left_out(model):
    counts = np.diff(model.observations_.by_col.pointers)
    least = int(np.median(counts))
    found = set(lorank.recommend(model, n=30, min_count=least).cols.tolist())
    assert found == {f"col {j}" for j in np.flatnonzero(counts >= least)}
    with pytest.raises(InputError, match="min_count must not be negative"):
        lorank.recommend(model, min_count=-1)


def test_diverse_lists_follow_the_definition(model):
    H = model.result_.factors.H
    for diversity in (0.3, 0.8):
        found = lists(lorank.recommend(model, ["row 3"], n=5, diversity=diversity))["row 3"]
        plain = lorank.recommend(model, ["row 3"], n=30)
        names, scores = plain.cols.tolist(), plain.scores
        relevance = (scores - scores[-1]) / (scores[0] - scores[-1])
        cosine = cosine_similarity(H[[int(name.split()[1]) for name in names]])
        chosen = [0]
        while len(chosen) < 5:
            worth = {
                j: (1 - diversity) * relevance[j] - diversity * cosine[j, chosen].max()
                for j in range(len(names))
                if j not in chosen
            }
            chosen.append(max(worth, key=worth.get))
        assert found == [names[j] for j in chosen]
    assert len(lists(lorank.recommend(model, ["row 7"], n=5, diversity=0.5))["row 7"]) == 2  # all that is left
    with pytest.raises(InputError, match="diversity must be at least 0 and less than 1"):
        lorank.recommend(model, diversity=1.0)


def test_more_like_these_but_not_those(model):
    H = model.result_.factors.H
    unit = H / np.linalg.norm(H, axis=1, keepdims=True)
    wanted = (unit[2] + unit[5]) / 2 - unit[9]
    cosine = unit @ wanted / np.linalg.norm(wanted)
    cosine[[2, 5, 9]] = -np.inf
    names, found = lorank.similar(model, col=["col 2", "col 5"], but_not="col 9", n=4)
    assert names.tolist() == [f"col {j}" for j in np.argsort(-cosine)[:4]]
    np.testing.assert_allclose(found, np.sort(cosine)[::-1][:4])
    with pytest.raises(InputError, match="nothing is left to look for"):
        lorank.similar(model, col="col 2", but_not="col 2")


def test_tables_of_lists_have_titles(model):
    told = {"film": model.model_.names(np.arange(model.model_.shape[1]), 1)}
    texts = [f"No. {j}" for j in range(model.model_.shape[1])]
    titled = model.model_.with_titles({**told, "title": texts, "score": texts})
    ranking = titled.recommend(n=2)
    rows, cols, scores = ranking
    assert rows.size == cols.size == scores.size
    table = ranking.table()
    assert table.columns == ["row", "column", "title", "score (title)", "score"]
    positions = titled.find(cols, 1)
    assert table["title"] == [texts[j] for j in positions]
    assert "No. " in ranking._repr_html_()
    assert model.recommend(n=2).table().columns == ["row", "column", "score"]


def test_titles_go_by_id_and_into_files(model, tmp_path):
    told = {"id": ["col 3", "col 0", "else"], "title": ["Three", "None <b>", "x"], "year": [1999, 2001, 7]}
    titled = model.model_.with_titles(told)
    found = titled.titles(np.array([0, 3, 4]), 1)
    assert {name: texts.tolist() for name, texts in found.items()} == {
        "title": ["None <b>", "Three", ""],
        "year": ["2001", "1999", ""],
    }
    for shards in (False, True):
        titled.save(tmp_path / f"model{shards}", shards=shards)
        again = lorank.load(tmp_path / f"model{shards}")
        assert {name: texts.tolist() for name, texts in again.col_titles.items()} == {
            name: texts.tolist() for name, texts in titled.col_titles.items()
        }
        assert again.row_titles == {}
    with pytest.raises(InputError, match="No id in 'id' is one of the model's rows"):
        model.model_.with_titles(told, axis=0)


def test_a_ranking_is_a_table(model):
    pytest.importorskip("pandas")
    ranking = lorank.recommend(model, ["row 3"], n=2)
    assert ranking.to_frame().columns.tolist() == ["row", "column", "score"]
    assert "<td" in ranking._repr_html_()
