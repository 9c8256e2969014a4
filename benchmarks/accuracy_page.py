"""The tables of docs/accuracy.md, from the records of accuracy.py."""

import re

import numpy as np

# A call is as good as a peer's if its mean error is at most this much larger.
EQUAL = 1.001


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
            lines.append(f"| {title} | {error} | {len(done)} | {seconds:.2g} | {cpu:.2g} |")
        elif found:
            lines.append(f"| {title} | did not run: {found[0]['failed']} | | | |")
    return "\n".join(lines) if len(lines) > 2 else "Not measured yet."


def ratios(records, titles):
    """For each peer the quickest of lorank's rows that is at least as good, on the same splits; by CPU time, which does
    not depend on what else the machine was doing."""
    lines = []
    for peer in ("smurff", "myfm"):
        theirs = {one["split"]: one for one in records if one["row"] == peer and "error" in one}
        best = None
        for row in titles:
            ours = {one["split"]: one for one in records if one["row"] == row and "error" in one}
            common = sorted(theirs.keys() & ours.keys())
            if row in ("smurff", "myfm") or not common:
                continue
            error, bar = (np.mean([side[i]["error"] for i in common]) for side in (ours, theirs))
            cpu, their_cpu = (sum(side[i]["cpu"] for i in common) for side in (ours, theirs))
            if error <= EQUAL * bar and (best is None or cpu < best[0]):
                text = f"{titles[row]} ({error:.4f}) takes 1/{their_cpu / cpu:.0f} of the CPU time of "
                best = cpu, f"{text}{titles[peer]} ({bar:.4f})."
        if best is not None:
            lines.append(f"- {best[1]}")
        elif theirs:
            lines.append(f"- Nothing here is as good as {titles[peer]}.")
    return "\n".join(lines)


def coverage(records, titles):
    keys = next((list(one["coverage"]) for one in records if "coverage" in one), [])
    if not keys:
        return "Not measured yet."
    lines = [f"| | {' | '.join(keys)} |", "|---" * (len(keys) + 1) + "|"]
    for row, title in titles.items():
        found = [one["coverage"] for one in records if one["row"] == row and "coverage" in one]
        if not found:
            continue
        cells = []
        for key in keys:
            inside, total = (sum(one[key][i] for one in found) for i in (0, 1))
            cells.append(f"{100 * inside / total:.1f}" if total >= 100 else "")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_page(records, data, titles, path):
    """Put the tables between their marks; everything else on the page stays."""
    page = path.read_text()
    for name, title in data.items():
        some = [one for one in records if one["data"] == name]
        tables = {"errors": errors(some, titles) + "\n\n" + ratios(some, titles), "coverage": coverage(some, titles)}
        for kind, table in tables.items():
            begin, end = f"<!-- {kind} {name} -->", f"<!-- end {kind} {name} -->"
            if begin not in page:
                raise SystemExit(f"{path} has no place for {kind} of {title}: {begin}")
            text = f"{begin}\n\n{table.strip()}\n\n{end}"
            page = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, text=text: text, page, flags=re.DOTALL)
    path.write_text(page)
