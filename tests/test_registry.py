"""The registry: every method by name, by its regularizer or as it is, its table, and the parameters it refuses."""

import pickle
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone

import lorank
from lorank import solvers
from lorank.errors import InputError
from lorank.estimators import running
from lorank.estimators.parameters import Parameters
from lorank.registry import CATALOGUE, Method, Parameter, find, register, saved
from lorank.regularizers import (
    LSP,
    MCP,
    NNFN,
    Factored,
    FactoredGSR,
    FactoredNNFN,
    FactoredNuclear,
    Nuclear,
    SchattenP,
    Separable,
    Spectral,
    TruncatedL12,
)

every = pytest.mark.parametrize("name", list(CATALOGUE))


@dataclass(frozen=True, kw_only=True)
class ElasticNet(Separable):
    """lam sum_i (sigma_i + ridge/2 sigma_i^2)."""

    ridge: float = field(default=0.1, metadata={"search": (1e-3, 1e-2)})

    def penalty(self, sigma):
        return self.lam * (sigma + self.ridge / 2 * sigma**2)

    def threshold(self, step):
        return step * self.lam

    def shrink(self, sigma, step):
        return (sigma - step * self.lam) / (1 + step * self.lam * self.ridge)


@dataclass(frozen=True, kw_only=True)
class Quick(ElasticNet):
    name: ClassVar[str] = "quick"
    concave: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Weighted(FactoredNuclear):
    """lam/2 (left ||W||_F^2 + ||H||_F^2)."""

    left: float

    def value(self, GW, GH):
        return self.lam / 2 * float(self.left * np.trace(GW) + np.trace(GH))

    def multipliers(self, GW, GH):
        first, second = super().multipliers(GW, GH)
        return self.left * first, second


def test_the_table_has_a_row_for_each_method():
    table = lorank.methods()
    assert table["name"] == list(CATALOGUE)
    rows = {row["name"]: row for row in table}
    # Table 1 of the paper: only factored NNFN has all four.
    letters = ("scalable", "adaptive", "statistical", "convergence")
    assert [name for name, row in rows.items() if all(row[letter] for letter in letters)] == ["nnfn"]
    assert not rows["nuclear"]["adaptive"]
    assert not rows["mcp"]["scalable"]
    assert rows["nnfn"]["parameters"] == "lam, theta=1 [1 or 0.5]"
    assert rows["capped-l1"]["parameters"] == "lam, theta=2 lam [2 or 100 times the strength]"
    assert rows["truncated-l12"]["parameters"] == "lam, t=1 [1 or 3]"
    assert rows["mf"]["parameters"] == ""
    text = str(table)
    assert len(text.splitlines()) == len(table) + 1
    assert "softimpute" in text
    frame = table.to_frame()
    assert list(frame.columns) == table.columns


def test_methods_know_what_they_can_do():
    assert [name for name, method in CATALOGUE.items() if method.samples] == ["bpmf"]
    able = {name for name, method in CATALOGUE.items() if method.distributes}
    assert able == {"nnfn", "factored-nuclear", "mf", "bpmf"}
    assert [name for name, method in CATALOGUE.items() if not method.tunes] == ["mf", "bpmf"]
    assert all(method.folds_in for method in CATALOGUE.values())


@every
def test_every_method_fits_by_its_name(name, small_problem):
    method = find(name)
    parameters = method.arguments(method.at(1.0, method.shapes[0]))
    model = lorank.MatrixCompletion(rank=3, **parameters, random_state=0).fit(small_problem.train)
    shrinks_all_alike = name in ("nuclear", "factored-nuclear", "grals")
    assert small_problem.nmse(*model.factors_) < (0.2 if shrinks_all_alike else 0.06)


@every
def test_a_strength_is_the_threshold_of_the_proximal_step(name):
    """What makes one path of strengths fair to all methods."""
    method = find(name)
    for shape in method.shapes:
        for strength in (0.3, 7.0):
            parameters = method.at(strength, shape)
            if not method.tunes:
                assert parameters == {}
                continue
            regularizer = method.build_regularizer(**parameters)
            if isinstance(regularizer, TruncatedL12):
                assert regularizer.lam == strength
                continue
            spectral = regularizer.spectral() if isinstance(regularizer, Factored) else regularizer
            assert spectral.threshold(1.0) == pytest.approx(strength, rel=1e-9)


@pytest.mark.parametrize(
    "regularizer",
    [LSP(theta=3.0), LSP(theta=0.2), SchattenP(p=0.3), NNFN(theta=0.5), MCP(theta=0.5), ElasticNet(), FactoredGSR()],
    ids=repr,
)
def test_a_regularizer_takes_any_threshold(regularizer):
    for threshold in (1e-3, 1.0, 250.0):
        found = regularizer.with_threshold(threshold)
        spectral = found.spectral() if isinstance(found, Factored) else found
        assert spectral.threshold(1.0) == pytest.approx(threshold, rel=1e-9)
        assert replace(found, lam=1.0) == regularizer
        if isinstance(spectral, Separable):  # the general way, of which two of them have a shorter one
            assert Spectral.with_threshold(spectral, threshold).lam == pytest.approx(found.lam, rel=1e-9)


def test_a_threshold_that_no_lam_has_leaves_lam_alone():
    @dataclass(frozen=True, kw_only=True)
    class Ridge(ElasticNet):
        def threshold(self, step):
            return 0.0

    assert Ridge().with_threshold(3.0).lam == 3.0


def test_parameters_that_a_method_does_not_have_are_named(small_problem):
    def fit(method, **parameters):
        return lorank.MatrixCompletion(method, rank=3, lam=10.0, **parameters).fit(small_problem.train)

    with pytest.raises(InputError, match="Method 'nuclear' has no parameter theta; it has lam"):
        fit("nuclear", theta=0.5)
    with pytest.raises(InputError, match="Method 'mcp' has no parameter p; it has lam and theta"):
        find("mcp").having(p=0.5)
    with pytest.raises(InputError, match="Method 'mf' has no parameter t; it has none"):
        find("mf").having(t=1)
    with pytest.raises(InputError, match="lam is not set on a method"):
        find("nnfn").having(lam=1.0)
    with pytest.raises(InputError, match="p must be strictly between 0 and 1"):
        fit(find("schatten-p").having(p=1.0))
    with pytest.raises(InputError, match="p must be 1/2 or 2/3"):
        fit(find("fgsr").having(p=0.9))
    with pytest.raises(InputError, match="t must be less than the rank"):
        fit(TruncatedL12(t=3))
    with pytest.raises(InputError, match="Unknown solver 'dca' for method 'mcp'; there are auto, proximal"):
        fit("mcp", solver="dca")
    with pytest.raises(InputError, match="Unknown method 'svd'; there are nnfn,"):
        fit("svd")
    with pytest.raises(InputError, match="method must be a name, a Method or a regularizer; got 3"):
        fit(3)
    with pytest.raises(InputError, match="Method 'Weighted' needs a value of left"):
        fit(Weighted)


def test_defaults_are_the_methods_own():
    assert find("nnfn").build_regularizer(2.0).theta == 1.0
    assert find("capped-l1").build_regularizer(2.0, theta=None).theta == 4.0
    assert find("schatten-p").build_regularizer(2.0).p == 0.5
    assert np.isclose(find("fgsr").build_regularizer(2.0, p=2 / 3).spectral().p, 2 / 3)
    assert find("nnfn").having(theta=0.3).build_regularizer(2.0).theta == 0.3
    assert find("nnfn").having(theta=0.3).build_regularizer(2.0, theta=0.7).theta == 0.7


def test_a_regularizer_is_a_method_whose_lam_does_not_count(table):
    shared = {"rank": 3, "lam": 0.5, "random_state": 0}
    by_name = lorank.MatrixCompletion("nnfn", theta=0.25, **shared).fit(table[0])
    for method in (FactoredNNFN(lam=77.0, theta=0.25), find("nnfn").having(theta=0.25)):
        other = lorank.MatrixCompletion(method, **shared).fit(table[0])
        np.testing.assert_array_equal(other.factors_[0], by_name.factors_[0])
    assert find(FactoredNuclear).name == "factored-nuclear"
    assert find(Nuclear()) == find("nuclear")
    assert str(find(SchattenP(lam=3.0, p=0.7))) == "schatten-p(p=0.7)"
    assert lorank.MatrixCompletion(NNFN(theta=0.25), theta=1.0, **shared).fit(table[0]).setting_.theta == 1.0


def test_a_method_is_derived_from_what_a_regularizer_has_and_can_do():
    net = find(ElasticNet)
    assert (net.name, net.formula, net.shapes) == (
        "ElasticNet",
        "lam sum_i (sigma_i + ridge/2 sigma_i^2).",
        (1e-3, 1e-2),
    )
    assert net.parameters["ridge"] == Parameter("ridge", 0.1, (1e-3, 1e-2))
    assert list(net.solvers) == ["proximal-momentum", "proximal-plain"]  # convex: its tangent is no bound
    assert list(find(Quick).solvers) == ["proximal", "proximal-momentum", "proximal-plain"]
    assert find(Quick).name == "quick"
    assert isinstance(find(FactoredGSR).build_solver("auto"), solvers.PALM)
    weighted = find(Weighted(left=2.0))
    assert type(weighted.build_solver("auto")) is solvers.Alternating
    assert weighted.distributes
    assert weighted.build_regularizer(3.0) == Weighted(lam=3.0, left=2.0)
    assert find(ElasticNet(ridge=0.5)).shapes == ((),)  # a regularizer is kept as it is; a class is searched
    assert find(ElasticNet(ridge=0.5)).at(2.0) == {"lam": 2.0}
    with pytest.raises(InputError, match="int is no regularizer"):
        find(int)
    with pytest.raises(InputError, match="Separable is no regularizer yet: it lacks penalty, shrink, threshold"):
        find(Separable)


def test_several_parameters_are_searched_together():
    @dataclass(frozen=True, kw_only=True)
    class Both(ElasticNet):
        other: int = field(default=1, metadata={"search": (1, 2)})

    method = find(Both)
    assert method.shapes == ((1e-3, 1), (1e-3, 2), (1e-2, 1), (1e-2, 2))
    assert method.at(3.0, (1e-2, 2)) == {"lam": 3.0, "ridge": 1e-2, "other": 2}
    assert method.having(other=5).shapes == (1e-3, 1e-2)
    arguments = method.arguments({"lam": 3.0, "rank": 4, "ridge": 1e-2, "other": 2})
    assert arguments == {"method": method.having(ridge=1e-2, other=2), "lam": 3.0, "rank": 4}


def test_register(registry, table):
    assert register(ElasticNet) is find("ElasticNet")
    assert register(ElasticNet(ridge=0.7), name="strict").build_regularizer(1.0).ridge == 0.7
    assert find(ElasticNet).name == "ElasticNet"
    assert register(replace(find("mf"), name="plain")).name == "plain"
    assert {"ElasticNet", "strict", "plain"} <= set(lorank.methods()["name"])
    for name in ("nnfn", "bpmf"):
        with pytest.raises(InputError, match=f"'{name}' is a method of lorank's own; register yours by another name"):
            register(ElasticNet, name=name)
    model = lorank.MatrixCompletion("strict", rank=3, lam=0.1, random_state=0).fit(table[0])
    other = lorank.MatrixCompletion(ElasticNet(ridge=0.7), rank=3, lam=0.1, random_state=0).fit(table[0])
    np.testing.assert_array_equal(model.factors_[0], other.factors_[0])


def test_a_class_that_was_changed_must_be_registered_again(registry):
    register(ElasticNet)
    changed = dataclass(frozen=True, kw_only=True)(type("ElasticNet", (ElasticNet,), {}))
    with pytest.raises(InputError, match=r"'ElasticNet' is that of another method; call lorank.register"):
        find(changed)
    assert register(changed).regularizer is changed
    assert find("ElasticNet").regularizer is changed


@pytest.mark.parametrize("method", ["nnfn", SchattenP(p=0.7), ElasticNet, ElasticNet(ridge=0.01), find("lsp")], ids=str)
def test_methods_survive_what_scikit_learn_does(method, table):
    model = lorank.MatrixCompletion(method, rank=3, lam=0.5, random_state=0)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert find(clone(twin).method) == find(method)
    fitted, again = model.fit(table[0]), lorank.MatrixCompletion().set_params(**model.get_params()).fit(table[0])
    np.testing.assert_array_equal(fitted.factors_[0], again.factors_[0])
    loaded = pickle.loads(pickle.dumps(fitted))
    assert find(loaded.method) == find(method)
    assert "method=" in repr(model) or method == "nnfn"


def asked(model):
    return Parameters(**model.get_params()).for_shape((100, 100)).chosen({})


def test_own_parameters_are_searched_where_they_are_auto(small_problem):
    method = find(ElasticNet).having(ridge="auto")
    with pytest.raises(InputError, match="needs a value of ridge"):
        method.build_regularizer(1.0)
    model = lorank.MatrixCompletion(method, rank=4, lam="auto", random_state=0).fit(small_problem.train)
    tried = model.tuning_.columns()
    assert set(tried["ridge"]) == {1e-3, 1e-2}
    chosen = dict(model.setting_.parameters)
    assert chosen["ridge"] == model.tuning_.chosen.ridge
    assert model.tuning_.chosen.error < 1.001 * tried["error"].min()
    assert model.setting_.facts()["ridge"] == chosen["ridge"]
    assert "ridge=" in str(model.setting_)
    assert "ridge" in repr(model.tuning_)
    problem = running.build_problem(asked(model), small_problem.train, model.setting_)
    assert problem.regularizer == ElasticNet(lam=model.setting_.lam, **chosen)
    only = lorank.MatrixCompletion(method, rank=4, lam=1.0, random_state=0).fit(small_problem.train)
    assert set(only.tuning_.columns()["lam"]) == {1.0}


def test_a_method_of_which_only_the_name_is_known_fits_nothing(registry):
    unknown = saved("mine", {"ridge": 0.5})
    assert isinstance(unknown, Method)
    assert (str(unknown), unknown.samples, unknown.distributes, unknown.folds_in) == ("mine(ridge=0.5)", 0, 0, 0)
    for build in (lambda: find(unknown).build_regularizer(1.0), lambda: find(unknown).build_solver("auto")):
        with pytest.raises(InputError, match=r"Method 'mine' is not registered.*call lorank.register"):
            build()
    register(ElasticNet, name="mine")
    assert find(unknown).build_regularizer(2.0) == ElasticNet(lam=2.0, ridge=0.5)


def test_a_checkpoint_knows_the_method_by_all_but_its_lam(small_problem, tmp_path):
    def fingerprint(method):
        model = lorank.MatrixCompletion(method, rank=3)
        return running.checkpoint_of(asked(model), tmp_path / "a", small_problem.train, None).fingerprint["method"]

    assert (
        fingerprint(SchattenP(lam=2.0, p=0.7)) == fingerprint(find("schatten-p").having(p=0.7)) == "schatten-p(p=0.7)"
    )
    assert fingerprint(SchattenP(p=0.5)) != fingerprint(SchattenP(p=0.7))
    assert fingerprint("nnfn") == "nnfn"
