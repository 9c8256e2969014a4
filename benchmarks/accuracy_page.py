"""The tables of docs/accuracy.md, from the records of accuracy.py."""

import csv
import re

import numpy as np

# A call is as good as a peer's if its mean error is at most this much larger.
EQUAL = 1.001
# Test entries from which a coverage is told.
LEAST = 100
MEANS = "benchmarks/accuracy.csv"


def spread(values, digits):
    if not values:
        return ""
    deviation = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{deviation}"


def errors(records, titles):
    lines = ["| | RMSE | splits | seconds | CPU seconds |", "|---|---|---|---|---|"]
    for row, title in titles.items():
        found = [one for one in records if one["row"] == row]
        done = [one for one in found if "error" in one]
        if done:
            seconds, cpu = (np.mean([one[what] for one in done]) for what in ("seconds", "cpu"))
            error = spread([one["error"] for one in done], 4)
            times = " | ".join(f"{time:.2g}" if time < 10 else f"{time:.0f}" for time in (seconds, cpu))
            lines.append(f"| {title} | {error} | {len(done)} | {times} |")
        elif found:
            lines.append(f"| {title} | did not run: {found[0]['failed']} | | | |")
    return "\n".join(lines) if len(lines) > 2 else "Not measured yet."


def ratios(records, titles):
    """For each peer the quickest of lorank's rows that is at least as good, on the same splits; by CPU time, which does
    not depend on what else the machine was doing."""
    for peer in ("smurff", "myfm"):
        theirs = {one["split"]: one for one in records if one["row"] == peer and "error" in one}
        best = None
        for row in titles:
            ours = {one["split"]: one for one in records if one["row"] == row and "error" in one}
            common = sorted(theirs.keys() & ours.keys())
            if row in ("smurff", "myfm") or not common:
                continue
            error, bar = (float(np.mean([side[i]["error"] for i in common])) for side in (ours, theirs))
            cpu, their_cpu = (sum(side[i]["cpu"] for i in common) for side in (ours, theirs))
            if error <= EQUAL * bar and (best is None or cpu < best["cpu"]):
                best = {"peer": peer, "row": row, "cpu": cpu, "error": error, "bar": bar, "times": their_cpu / cpu}
        if best is not None:
            yield best
        elif theirs:
            yield {"peer": peer, "row": None}


def sentence(found, titles):
    peer = titles[found["peer"]]
    if found["row"] is None:
        return f"- Nothing here is as good as {peer}."
    ours = f"{titles[found['row']]} ({found['error']:.4f})"
    return f"- {ours} takes 1/{found['times']:.0f} of the CPU time of {peer} ({found['bar']:.4f}), on the same splits."


def coverage(records, titles):
    keys = next((list(one["coverage"]) for one in records if "coverage" in one), [])
    if not keys:
        return "Not measured yet."
    lines = [f"| | splits | {' | '.join(keys)} |", "|---" * (len(keys) + 2) + "|"]
    for row, title in titles.items():
        found = [one["coverage"] for one in records if one["row"] == row and "coverage" in one]
        if not found:
            continue
        cells = []
        for key in keys:
            inside, total = (sum(one[key][i] for one in found) for i in (0, 1))
            cells.append(f"{100 * inside / total:.1f}" if total >= LEAST else "")
        lines.append(f"| {title} | {len(found)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def means(name, records, titles, splits):
    """What the tables of one data set show, one line a row and one a comparison with a peer."""
    first = [one for one in records if one["split"] < splits]
    for row in titles:
        done = [one for one in first if one["row"] == row and "error" in one]
        if not done:
            continue
        found = [one["error"] for one in done]
        line = {"data": name, "row": row, "splits": len(done), "RMSE": np.mean(found)}
        line |= {"deviation": np.std(found, ddof=1)} if len(done) > 1 else {}
        line |= {what: np.mean([one[what] for one in done]) for what in ("seconds", "cpu")}
        inside = [one["coverage"] for one in records if one["row"] == row and "coverage" in one]
        for key in inside[0] if inside else ():
            held, total = (sum(one[key][i] for one in inside) for i in (0, 1))
            line |= {key: 100 * held / total} if total >= LEAST else {}
        yield line
    for one in ratios(first, titles):
        if one["row"] is not None:
            text = f"{one['row']} beside {one['peer']}"
            yield {"data": name, "row": text, "RMSE": one["error"], "peer": one["bar"], "times": one["times"]}


def write_means(lines, path):
    names = list(dict.fromkeys(name for line in lines for name in line))
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, names, lineterminator="\n")
        table.writeheader()
        table.writerows({name: f"{v:.6g}" if isinstance(v, float) else v for name, v in line.items()} for line in lines)


def write_page(records, data, titles, splits, path):
    """Put the tables between their marks, and what they show into a file beside the records; all else stays.

    Errors are means of the first so many splits, coverage of all.
    """
    page = path.read_text()
    some = {name: [one for one in records if one["data"] == name] for name in data}
    write_means([line for name in data for line in means(name, some[name], titles, splits)], path.parent / MEANS)
    for name, title in data.items():
        first = [one for one in some[name] if one["split"] < splits]
        beside = "\n".join(sentence(one, titles) for one in ratios(first, titles))
        tables = {
            "errors": f"{errors(first, titles)}\n\n{beside}",
            "coverage": coverage(some[name], titles),
        }
        for kind, table in tables.items():
            begin, end = f"<!-- {kind} {name} -->", f"<!-- end {kind} {name} -->"
            if begin not in page:
                raise SystemExit(f"{path} has no place for {kind} of {title}: {begin}")
            text = f"{begin}\n<!-- docs/{MEANS}: {name} -->\n\n{table.strip()}\n\n{end}"
            page = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, text=text: text, page, flags=re.DOTALL)
    path.write_text(page)
