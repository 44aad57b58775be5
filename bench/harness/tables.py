"""Raw runs -> summaries -> the text that is printed. No measuring here: a saved JSON file gives the same tables."""

import statistics

from . import stats

# Norm. Exec. Time as shown in a talk about Scalene: the figures this project's users know. Here only for comparison.
PUBLISHED = {
    "pprofile_stat": 1.0,
    "py_spy": 1.0,
    "scalene": 1.2,
    "pyinstrument": 1.5,
    "cProfile": 2.1,
    "yappi_wallclock": 3.0,
    "yappi_cpu": 5.2,
    "line_profiler": 6.6,
    "Profile": 16.1,
    "pprofile_det": 39.5,
}

# When the bare program against itself spreads further than this, the run cannot tell a few percent.
NOISY = 0.10


def by_round(runs, value):
    found = {}
    for run in runs:
        if "error" not in run:
            found.setdefault(run["round"], []).append(value(run))
    return found


def median_of(runs, value):
    values = [value(run) for run in runs if "error" not in run]
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def per_iteration(key):
    return lambda run: run[key] / run["iterations"]


def tree_cpu_ratio(base):
    """CPU of the whole tree against what the bare program would use for as many iterations, its start included."""
    start = median_of(base, lambda run: run["tree_cpu_s"] - run["body_cpu_s"])
    each = median_of(base, per_iteration("body_cpu_s"))
    return (lambda run: run["tree_cpu_s"] / (start + each * run["iterations"])) if each else None


def sample_fact(key):
    return lambda run: run.get("samples", {}).get(key)


def got_per_asked(run):
    facts = run.get("samples", {})
    return facts["got"] / facts["asked"] if facts.get("asked") else None


def summarize(runs):
    """{workload: {tool: facts}}; a tool that never succeeded has only "error"."""
    table = {}
    for workload in dict.fromkeys(run["workload"] for run in runs):
        of_workload = [run for run in runs if run["workload"] == workload]
        base = [run for run in of_workload if run["tool"] == "baseline"]
        rows = table.setdefault(workload, {})
        for tool in dict.fromkeys(run["tool"] for run in of_workload):
            mine = [run for run in of_workload if run["tool"] == tool]
            good = [run for run in mine if "error" not in run]
            failures = len(mine) - len(good)
            if not good:
                rows[tool] = {"error": mine[-1]["error"], "failures": failures}
                continue
            wall, cpu, body_cpu = per_iteration("body_s"), tree_cpu_ratio(base), per_iteration("body_cpu_s")
            base_best = min((wall(run) for run in base if "error" not in run), default=None)
            rows[tool] = {
                "wall": stats.summary(stats.paired_ratios(by_round(mine, wall), by_round(base, wall))),
                "best": min(map(wall, good)) / base_best if base_best else None,
                "cpu": stats.summary([cpu(run) for run in good]) if cpu else None,
                "body_cpu": stats.summary(stats.paired_ratios(by_round(mine, body_cpu), by_round(base, body_cpu))),
                "body_s": median_of(mine, lambda run: run["body_s"]),
                "around_s": median_of(mine, lambda run: run["wall_s"] - run["body_s"]),
                "target_rss": median_of(mine, lambda run: run["target_rss_bytes"]),
                "profiler_rss": median_of(mine, lambda run: run["profiler_rss_bytes"]),
                "output": median_of(mine, lambda run: run["output_bytes"]),
                "got": median_of(mine, sample_fact("got")),
                "kept": median_of(mine, got_per_asked),
                "bad": median_of(mine, sample_fact("bad_share")),
                "handler_ns": median_of(mine, sample_fact("handler_median_ns")),
                "failures": failures,
                "notes": sorted({run["samples"]["note"] for run in good if run.get("samples", {}).get("note")}),
            }
    return table


def number(value, form="%.2f", missing="-"):
    return missing if value is None else form % value


def ratio(facts):
    if facts is None:
        return "-"
    return "%.2f (%.2f-%.2f)" % (facts["median"], facts["min"], facts["max"])


def grid(head, rows):
    """A markdown table whose columns line up in a terminal, too."""
    widths = [max(len(str(row[i])) for row in [head] + rows) for i in range(len(head))]
    lines = []
    for index, row in enumerate([head] + rows):
        cells = [str(row[0]).ljust(widths[0])] + [str(cell).rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("| " + " | ".join(cells) + " |")
        if index == 0:
            lines.append("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def workload_table(name, rows):
    head = [
        "profiler",
        "wall x (min-max)",
        "best/best",
        "own CPU x",
        "CPU of tree x",
        "start+end s",
        "RSS MB target+own",
        "output KB",
        "samples",
        "got/asked",
        "bad",
        "failed runs",
    ]
    lines = []
    for tool, facts in rows.items():
        if "error" in facts:
            continue
        rss = "%.0f+%.0f" % ((facts["target_rss"] or 0) / 1e6, (facts["profiler_rss"] or 0) / 1e6)
        lines.append(
            [
                tool,
                ratio(facts["wall"]),
                number(facts["best"]),
                number(facts["body_cpu"] and facts["body_cpu"]["median"]),
                number(facts["cpu"] and facts["cpu"]["median"]),
                number(facts["around_s"]),
                rss,
                number(facts["output"] / 1e3, "%.1f"),
                number(facts["got"], "%d"),
                number(facts["kept"] and facts["kept"] * 100, "%.0f %%"),
                number(None if facts["bad"] is None else facts["bad"] * 100, "%.2f %%"),
                facts["failures"] or "",
            ]
        )
    body = rows.get("baseline", {}).get("body_s")
    text = ["### %s (bare body: %s s)" % (name, number(body)), "", grid(head, lines)]
    for tool, facts in rows.items():
        if "error" in facts:
            text.append("%s failed: %s" % (tool, facts["error"]))
        for note in facts.get("notes", []):
            text.append("%s: %s" % (tool, note))
    return "\n".join(text)


def wall_matrix(table, tools):
    workloads = list(table)
    lines = []
    for tool in tools:
        cells = [table[w].get(tool, {}).get("wall") for w in workloads]
        if any(cells):
            lines.append([tool] + [number(c and c["median"]) for c in cells])
    return grid(["wall x"] + workloads, lines)


def cost_bar(table):
    """The project's own bar: wall at 1 kHz with native frames <= 1.02 + (cheaper empty handler - 1), per workload."""
    lines = []
    for workload, rows in table.items():
        walls = {tool: facts.get("wall") for tool, facts in rows.items()}
        empty = {tool: walls[tool]["median"] for tool in ("empty_ticker", "empty_perf") if walls.get(tool)}
        mine, null = walls.get("fathom"), walls.get("null")
        if not mine or not empty:
            continue
        cheaper = min(empty, key=empty.get)
        # A floor below the bare program is noise, and must not lower the bar.
        bar = 1.02 + max(0.0, empty[cheaper] - 1.0)
        if mine["median"] <= bar:
            verdict = "kept"
        elif mine["low"] <= bar:
            verdict = "over, within its own noise"
        else:
            verdict = "OVER"
        if null and null["max"] - null["min"] > NOISY:
            verdict += " (noisy)"
        spread = "%.2f-%.2f" % (null["min"], null["max"]) if null else "-"
        own = rows["fathom"]["body_cpu"]
        lines.append(
            [
                workload,
                "%.3f" % mine["median"],
                "%.3f-%.3f" % (mine["low"], mine["high"]),
                "%.3f %s" % (empty[cheaper], cheaper),
                "%.3f" % bar,
                verdict,
                number(own and own["median"], "%.3f"),
                spread,
            ]
        )
    if not lines:
        return "cost bar: not measured (it needs fathom and an empty handler in the same run)"
    return grid(
        ["workload", "fathom", "95 %", "cheaper empty handler", "bar", "verdict", "own CPU x", "null min-max"], lines
    )


def normalized(table, tools):
    """Geometric mean over the workloads, of the median wall ratios."""
    lines = []
    for tool in tools:
        if not tool.table:
            continue
        cells = [rows[tool.name]["wall"]["median"] for rows in table.values() if rows.get(tool.name, {}).get("wall")]
        if not cells:
            continue
        mean = stats.geometric_mean(cells)
        published = PUBLISHED.get(tool.table)
        lines.append(
            (
                mean,
                [
                    tool.table,
                    "%.2fx" % mean,
                    "%.2f-%.2f" % (min(cells), max(cells)),
                    "%d of %d" % (len(cells), len(table)),
                    "%gx" % published if published else "",
                ],
            )
        )
    lines.sort(key=lambda line: line[0])
    return grid(["Profiler", "Norm. Exec. Time", "range", "workloads", "in the talk"], [line for _, line in lines])


# The rows of README's table: what a reader may use today, as it comes or at the rate that Fathom has.
FRONT = {
    "fathom_default": "`fathom run`: time through native code, memory, waiting; 1 kHz",
    "fathom": "`fathom run --cpu`: time through native code, waiting; 1 kHz",
    "py_spy": "py-spy: time in Python; 100 Hz",
    "py_spy_native_1k": "py-spy --native: time through native code; 1 kHz asked for",
    "austin_1k": "Austin: time in Python; 1 kHz",
    "scalene": "Scalene --cpu-only: time by line; 100 Hz",
    "scalene_memory": "Scalene --memory: time and memory by line; 100 Hz",
    "pyinstrument": "pyinstrument: time in Python, main thread; 1 kHz",
    "memray": "memray: memory",
    "cProfile": "cProfile: calls",
}


def front_page(facts, table):
    """The table of README, from a run that was saved: cost, and what became of the samples that were asked for."""
    lines = []
    for tool, label in FRONT.items():
        rows = [rows[tool] for rows in table.values() if rows.get(tool, {}).get("wall")]
        if not rows:
            continue
        walls = [row["wall"]["median"] for row in rows]
        kept = [row["kept"] for row in rows if row["kept"] is not None]
        bad = [row["bad"] for row in rows if row["bad"] is not None]
        lines.append(
            [
                label,
                "%.2fx" % stats.geometric_mean(walls),
                "%.2fx" % max(walls),
                number(statistics.median(kept) * 100 if kept else None, "%.0f%%"),
                number(max(bad) * 100 if bad else None, "%.1f%%"),
            ]
        )
    machine = facts["machine"]
    head = ["profiler, and what it records", "run time", "at worst", "samples got", "unusable"]
    about = "%s, Python %s, %d cores%s, %d workloads, medians of %d rounds by turns (`make bench`)." % (
        facts["date"],
        facts["python"],
        machine["cores"],
        ", virtual machine" if machine["hypervisor"] else "",
        len(table),
        facts["rounds"],
    )
    return grid(head, lines) + "\n\n" + about + "\n"
