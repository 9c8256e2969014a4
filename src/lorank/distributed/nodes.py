"""The nodes of a cluster: what each must have before a fit, in which version, and places for workers on them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lorank.errors import InputError

# The arithmetic depends on these: other versions may give other bits.
LIBRARIES = ("lorank", "numba", "numpy")
# Seconds in which a node has to answer; a process may have to be started there first.
PATIENCE = 120.0
# Seconds in which a cluster may become idle; others may use it.
IDLE = 3.0
# Sent as text: a function of this module would need lorank on the node.
_PROBE = """
def probe(libraries, files, folder):
    import os
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for library in libraries:
        try:
            __import__(library)
            found[library] = version(library)
        except (ImportError, PackageNotFoundError):
            found[library] = None
    lost = next((path for path in files if not os.path.exists(path)), None)
    return {"versions": found, "lost": lost, "writes": folder is None or os.access(folder, os.W_OK)}
"""


def check_nodes(files: Sequence[str] = (), folder: str | None = None) -> None:
    """Refuse a cluster with a node on which a fit could not run, in one sentence, before anything starts there.

    Parameters
    ----------
    files : paths that every node must see
    folder : a folder that every node must see and write to
    """
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    space: dict[str, Any] = {"__name__": "__main__"}
    exec(_PROBE, space)
    task: Any = ray.remote(space["probe"])
    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    asked = []  # not by address: a machine may be several nodes
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        seen = [*files, *([] if folder is None else [folder])]
        answer = task.options(num_cpus=0, scheduling_strategy=there).remote(LIBRARIES, seen, folder)
        asked.append((node["NodeManagerAddress"], answer))
    own = {library: _version(library) for library in LIBRARIES}
    for address, answer in asked:
        try:
            found = ray.get(answer, timeout=PATIENCE)
        except RayError as error:
            text = str(error).strip().splitlines()
            raise InputError(
                f"The node {address} did not answer ({text[-1][:200] if text else type(error).__name__}); "
                "look at what is wrong with it, or take it out of the cluster."
            ) from None
        refuse_node(address, own, found, folder)


def spread_places(workers: int, threads: int) -> Any:
    """A place for each worker, over the nodes as evenly as their CPUs allow, so that each brings its memory.

    Ray finds another one for what was on a node that goes down.
    """
    import ray
    from ray.util import placement_group

    cluster: Any = ray
    if len(cluster.nodes()) > 1:
        # Tasks that have just ended give their CPUs back a moment later; until then their node seems to be full.
        deadline = time.monotonic() + IDLE
        while (
            time.monotonic() < deadline
            and cluster.available_resources().get("CPU") != cluster.cluster_resources()["CPU"]
        ):
            time.sleep(0.05)
    return placement_group([{"CPU": threads}] * workers, strategy="SPREAD")


def refuse_node(address: str, own: dict[str, str | None], found: dict[str, Any], folder: str | None) -> None:
    """Refuse a node by what it answered; `own` are the versions here."""
    for library, here in own.items():
        there = found["versions"][library]
        if here is None:
            continue  # run from a folder that was never installed: there is nothing to compare
        if there is None:
            raise InputError(f"The node {address} has no {library}; install {library} {here} there, as it is here.")
        if there != here:
            raise InputError(
                f"The node {address} has {library} {there}, and here it is {here}; install the same on all nodes."
            )
    if found["lost"] is not None and found["lost"] == folder:
        raise InputError(
            f"The node {address} does not see the work folder {folder}; give one on storage that all nodes share."
        )
    if found["lost"] is not None:
        raise InputError(f"The node {address} does not see {found['lost']}; put it on storage that all nodes share.")
    if not found["writes"]:
        raise InputError(f"The node {address} may not write to the work folder {folder}; give one where all nodes may.")


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None
