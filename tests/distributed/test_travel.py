"""The plan of what travels: lines whole, once to each node, or as lists; on one node they are read."""

import re

import pytest

from lorank.distributed.travel import BANDWIDTH, MESSAGES, Route

LINE = 64
# Three workers, each with 100 rows and 10 columns; how many lines of each owner's other side its parts need.
BOUNDS = {"rows": [(0, 100), (100, 200), (200, 300)], "cols": [(0, 10), (10, 20), (20, 30)]}
NEEDS = {"rows": [[10, 9, 1], [9, 10, 1], [1, 1, 10]], "cols": [[100, 90, 5], [90, 100, 5], [5, 5, 100]]}


def route(nodes):
    found = {at: (node, {side: NEEDS[side][at] for side in NEEDS}) for at, node in enumerate(nodes)}
    return Route.of(found, BOUNDS, LINE)


def test_on_one_node_lines_are_read_and_nothing_is_sent():
    plan = route("aaa")
    assert plan.bytes == {"rows": LINE * 22, "cols": LINE * 200, "held out": 0}
    assert set(plan.network.values()) == {0}
    assert plan.messages == 0
    assert plan.describe(3.0, 2) == (
        "In a sweep workers read 0.00141 MB for the rows and 0.0128 MB for the columns from each other; about 1.5 s of "
        "computing on 2 cores."
    )


def test_between_nodes_lines_travel_whole_where_most_are_needed():
    """The first two share a node; of what each node's workers have, others need either most or next to nothing."""
    plan = route("aab")
    # What the first and the second need of each other is read; the third and they need few of each other's lines.
    assert plan.whole == {"rows": [False, False, False], "cols": [False, False, False]}
    assert plan.network == {"rows": LINE * 4, "cols": LINE * 20, "held out": 0}
    assert plan.bytes == {"rows": LINE * 22, "cols": LINE * 200, "held out": 0}
    apart = route("abc")
    assert apart.whole == {"rows": [False, False, False], "cols": [False, False, False]}
    assert apart.network == apart.bytes == {"rows": LINE * 22, "cols": LINE * 200, "held out": 0}
    # Of two workers on two nodes each needs nine tenths: all of it goes there, once.
    two = {at: (node, {side: NEEDS[side][at][:2] for side in NEEDS}) for at, node in enumerate("ab")}
    plan = Route.of(two, {side: bounds[:2] for side, bounds in BOUNDS.items()}, LINE)
    assert plan.whole == {"rows": [True, True], "cols": [True, True]}
    assert plan.network == plan.bytes == {"rows": LINE * 20, "cols": LINE * 200, "held out": 0}
    said = plan.describe(3.0, 1)
    number = re.search(r"; ([\d.]+) MB go from node to node", said)[1]
    assert float(number) * 1e6 == pytest.approx(LINE * 220 + 2 * MESSAGES, rel=0.01)
    assert f"{(LINE * 220 + 2 * MESSAGES) / BANDWIDTH:.2g} s of moving" in said
    assert "line by line in 0 of 4 cases" in said
