# SPDX-License-Identifier: MIT
"""What comes out: figures as tables, held against the bars, and kept in RESULTS.md."""

import os
import platform
import re
import statistics
import time

# The most that variants may take, by work and name of the variant: the time ("wall") or the CPU time of all
# concerned ("cpu") × native; the time of an operation ("each"); CPU time besides the work's ("besides"); what
# the work's own CPU time grew by for a unit of it ("added"); the archiver's CPU time for one ("archived").
UNPRIVILEGED, PASSTHROUGH = ("shfs-dev", "shfs-uring"), ("pass-dev", "pass-uring")


def bars(**limits):
    """All of a few variants."""
    return lambda *names: {name: limits for name in names}


BARS = {
    "cp": {"shfs-dev": {"wall": 4, "cpu": 3.5}, "shfs-uring": {"wall": 3, "cpu": 3.5}, **bars(wall=3)(*PASSTHROUGH),
           "fanotify": {"added": 3e-6}, "bpf-tracepoints": {"added": 4.8e-6}},
    "cp-within": {"shfs-dev": {"wall": 4}, "shfs-uring": {"wall": 3}, **bars(wall=3)(*PASSTHROUGH)},
    "cp-new": bars(archived=28e-6)(*UNPRIVILEGED, *PASSTHROUGH),
    "elsewhere": {"fanotify": {"added": 0.5e-6}},
    "checkout": {"shfs-dev": {"wall": 3.5}, "shfs-uring": {"wall": 2.2}, **bars(wall=1.5)(*PASSTHROUGH)},
    "grep": bars(wall=4)(*UNPRIVILEGED),
    "open-read": {"shfs-dev": {"each": 40e-6}, "shfs-uring": {"each": 28e-6}},
    "open-write": {"shfs-dev": {"each": 110e-6}, "shfs-uring": {"each": 60e-6}},
    "cc": bars(wall=1.04)(*UNPRIVILEGED, *PASSTHROUGH),
    "pipeline": bars(wall=1.02)(*UNPRIVILEGED, *PASSTHROUGH),
    "blast": bars(wall=1.05)(*UNPRIVILEGED, *PASSTHROUGH),
    "read-cold": {**bars(wall=1.2)(*UNPRIVILEGED), **bars(wall=1.02)(*PASSTHROUGH)},
    "read-hot": {**bars(wall=1.2)(*UNPRIVILEGED), **bars(wall=1.02)(*PASSTHROUGH)},
    "write": {**bars(wall=1.2)(*UNPRIVILEGED), **bars(wall=1.02)(*PASSTHROUGH)},
    "record-start": bars(besides=0.06)("shfs-record"),
    "record-python": bars(cpu=2)("shfs-record"),
    "record-cc": bars(cpu=1.3)("shfs-record"),
}
BAR_PROMPT = 40e-6
# Of the best of the drivers without FUSE, times native.
BARS_DRIVER = {"cp": 1.05, "checkout": 1.10, "cc": 1.01}
# What drivers of the kernel add to the open and close of a file that is read below the root, of one that is
# written there, and of one outside: instructions in the virtual machine (docs/fast-path.md; outside what the
# tests allow at most); and the nanoseconds of one.
INSTRUCTIONS = {"module": (635, 1843, 300), "bpf": (1120, 3909, 300)}
NS = (0.15, 0.30)
BARS_SHARE = {"cp": 0.01, "checkout": 0.005, "cc": 0.005}
# Unprivileged, the part of bindfs's time (both times native) that must not be reached.
BAR_OF_BINDFS = {"cp": 1 / 3, "cp-within": 1 / 3}

# Others' own figures for work of the same kind, on their machines: never measured here.
SHOURNAL = ("shournal (Sci Rep 2024, Results and Fig. 1d, cold cache): < 1.005 with the kernel module, < 1.063 "
            "with fanotify; strace there up to 2.4 and more, SPADE more than 2, Burrito more than 1.2")
PROBE = "PROBE (Table 3): {} with metadata only, {} with data; strace there {}, CARE {}, PTU {}"
PUBLISHED = {
    "cp": SHOURNAL + "; its work: cp of the Linux source",
    "checkout": SHOURNAL + "; its work: Linux 4.19 to 3.10",
    "cc": SHOURNAL + "; its work: configure && make -j of elfutils",
    "blast": PROBE.format("1.00 to 1.01", "0.99 to 1.07", "1.00 to 1.10", "0.99 to 1.04", "1.00 to 1.03"),
    "postmark": PROBE.format("0.93 ± 0.02", "1.41 ± 0.05", "0.92 ± 0.02", "0.93 ± 0.02", "0.92 ± 0.02"),
    "open-read": PROBE.format("1.03 ± 0.12", "1.08 ± 0.06", "0.98 ± 0.09", "1.20 ± 0.08", "1.11 ± 0.07")
                 + "; its work: open and close",
    "stat": PROBE.format("1.18 ± 0.01", "1.40 ± 0.03", "1.14 ± 0.04", "1.26 ± 0.03", "1.35 ± 0.03"),
}


# --- figures ---


def spread(values):
    """median, p10, p90"""
    if len(values) == 1:
        return values * 3
    deciles = statistics.quantiles(values, n=10, method="inclusive")
    return statistics.median(values), deciles[0], deciles[-1]


def show_time(seconds):
    for unit, scale in ("s", 1), ("ms", 1e3), ("µs", 1e6):
        if abs(seconds) * scale >= 1 or unit == "µs":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError


def show_spread(values, show):
    median, low, high = map(show, spread(values))
    return median if len(values) == 1 else f"{median} ({low}–{high})"


def ratios(result):
    return [s["seconds"] / s["native"]["seconds"] for s in result["samples"]]


def own_cpu(result):
    """Of a tracer, also what the whole takes more than the same work alone."""
    more = result["kind"] in ("tracer", "record")
    return [s["own_cpu"] + (s["cpu"] - s["native"]["cpu"] if more else 0) for s in result["samples"]]


# --- the bars ---


def held_against(data, result):
    """What the bars of this variant are about: {measure: value}."""
    median, samples = statistics.median, result["samples"]
    cpu = [(s["native"]["cpu"] if result["kind"] == "record" else s["cpu"]) + own
           for s, own in zip(samples, own_cpu(result))]
    native = median(s["native"]["cpu"] for s in samples)
    return {
        "wall": median(ratios(result)),
        "cpu": median(cpu) / native,
        "each": median(s["seconds"] for s in samples),  # a loop's are those of one operation
        "besides": median(own_cpu(result)),
        "added": (median(s["cpu"] for s in samples) - native) / data["units"][1],
        "archived": median(s["archiver_cpu"] for s in samples) / data["units"][1],
    }


def judge(data, result):
    """Sentences of (is it met, what): for each bar on this variant."""
    work, others = data["name"], data["variants"]
    if result["kind"] == "driver":
        yield from judge_driver(work, result, others)
    found = held_against(data, result)
    for measure, limit in BARS.get(work, {}).get(result["name"], {}).items():
        shown = f"{limit:g}" if measure in ("wall", "cpu") else show_time(limit)
        told = {"cpu": " in CPU", "added": " added", "archived": " to archive"}.get(measure, "")
        value = f"{found[measure]:.2f}" if measure == "cpu" else show_time(found[measure]) if told else ""
        yield found[measure] <= limit, f"≤ {shown}{told}{value and f' ({value})'}"
    if result["kind"] not in ("unprivileged", "passthrough"):
        return
    mine = found["wall"]
    theirs = {o["name"]: statistics.median(ratios(o)) for o in others
              if o["kind"] in ("peer", "tracer") and o["samples"]}
    if work in BAR_OF_BINDFS and result["kind"] == "unprivileged" and "bindfs" in theirs:
        yield mine < theirs["bindfs"] * BAR_OF_BINDFS[work], "< ⅓ of bindfs"
    # how far a plain pass-through file system is behind is told, but only these are to be beaten
    faster = [name for name, ratio in theirs.items() if ratio <= mine and name != "fuse-overlayfs"]
    if theirs:
        yield not faster, "behind " + ", ".join(faster) if faster else "ahead of the others"


def judge_driver(work, result, others):
    drivers = [o for o in others if o["kind"] == "driver" and o["samples"]]
    if work in BARS_DRIVER and result is min(drivers, key=lambda o: statistics.median(ratios(o))):
        yield statistics.median(ratios(result)) <= BARS_DRIVER[work], f"≤ {BARS_DRIVER[work]}"


def bars_cell(data, result):
    if data["quick"] or result["kind"] == "native":
        return ""
    return "; ".join(what if what.startswith(("ahead", "behind")) else f"{what} {'met' if met else 'MISSED'}"
                     for met, what in judge(data, result))


# --- tables ---


def table(head, rows):
    widths = [max(len(r[k]) for r in [head, *rows]) for k in range(len(head))]
    lines = [head, ["-" * w for w in widths], *rows]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(r, widths)) + " |" for r in lines)


HEAD = ["in, or under", "time (p10–p90)", "× native (p10–p90)", "CPU of the work", "CPU besides", "requests",
        "bars"]


def row(data, result):
    operations, (unit, units) = data["operations"], data["units"]
    samples = result["samples"]

    def each(values):
        return show_time(statistics.median(values) / operations)

    native = result["kind"] == "native"
    requests = f"{sum(result['requests'].values()) / units:.3g} / {unit}" if result["requests"] else ""
    tracer = result["kind"] in ("tracer", "record")
    return [result["title"], show_spread([s["seconds"] for s in samples], show_time),
            "" if native else show_spread(ratios(result), lambda r: f"{r:.3g}" if r >= 10 else f"{r:.2f}"),
            each([s["native"]["cpu"] if tracer else s["cpu"] for s in samples]),
            "" if native else each(own_cpu(result)), requests,
            bars_cell(data, result)]


def requests_lines(data, measured):
    """Which they were, of each mount that differs from the one before."""
    unit, units = data["units"]
    said, lines = None, []
    for result in measured:
        most = sorted(result["requests"].items(), key=lambda item: -item[1])
        text = ", ".join(f"{name} {count / units:.2g}" for name, count in most if count / units >= 0.05)
        if text and text != said:
            lines.append(f"* {result['title']}: {text}")
        said = text
    return [f"Requests per {unit}:\n\n" + "\n".join(lines)] if lines else []


def share_lines(data):
    """What drivers would take that cannot be measured here, of the time of the work: by what was opened."""
    told = [s["closes"] for r in data["variants"] for s in r["samples"] if s["closes"]]
    if data["name"] not in BARS_SHARE or not told or data["opens"] is None:
        return []
    most = BARS_SHARE[data["name"]]
    read, written = max(told, key=sum)
    counts = read, written, max(data["opens"] - read - written, 0)
    native = statistics.median(s["seconds"] for r in data["variants"] if r["kind"] == "native" for s in r["samples"])
    shares = []
    for name, each in INSTRUCTIONS.items():
        low, high = (sum(n * k for n, k in zip(counts, each)) * ns * 1e-9 / native for ns in NS)
        formula = " + ".join(f"{n} × {k}" for n, k in zip(counts, each))
        verdict = "met" if high < most else "MISSED" if low >= most else "MISSED at the upper end"
        shares.append(f"* {name}: ({formula}) instructions × {NS[0]:g} to {NS[1]:g} ns ÷ {show_time(native)} = "
                      f"{low:.2%} to {high:.2%}; < {most:.1%} {verdict}")
    return ["By instructions, of the native time. Opened and closed in a run: read below the root, written there, "
            "outside, times what each adds in the virtual machine:\n\n" + "\n".join(shares)]


def show(data):
    """The text of one work: a table, and what is to be known of it."""
    measured = [r for r in data["variants"] if r["samples"]]
    lines = [table(HEAD, [row(data, r) for r in measured])]
    if data["quick"]:
        lines.append("Quick: small sizes, once; nothing to go by.")
    lines += requests_lines(data, measured) + share_lines(data)
    absent = [f"{r['title']}: {r['missing']}" for r in data["variants"] if r["missing"]]
    if absent:
        lines.append("Not measured: " + "; ".join(absent) + ".")
    if data["name"] in PUBLISHED:
        lines.append(f"Published, × native, not measured here: {PUBLISHED[data['name']]}.")
    return "\n\n".join(lines)


# --- RESULTS.md ---


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        found = re.search(r"model name\s*:\s*(.*)", info.read())
    return found[1] if found else platform.machine()


def circumstances(command, versions):
    """A line: where and how it was measured."""
    with open("/proc/meminfo", encoding="ascii") as info:
        memory = int(re.search(r"MemTotal:\s+(\d+)", info.read())[1]) / (1 << 20)
    return (f"{time.strftime('%Y-%m-%d')}, `{command}`; Linux {platform.release()}, {os.cpu_count()} × {cpu_model()}, "
            f"{memory:.0f} GiB, journaled ext4 on a loop device; " + ", ".join(versions))


def save(path, name, title, text):
    """Replaces the section of this benchmark, or appends it; all else stays."""
    try:
        with open(path, encoding="utf-8") as old:
            whole = old.read()
    except FileNotFoundError:
        whole = "# Results\n"
    section = f"## {name}: {title}\n\n{text.strip()}\n"
    pattern = rf"^## {re.escape(name)}: .*?(?=^## |\Z)"
    if re.search(pattern, whole, re.M | re.S):
        whole = re.sub(pattern, lambda _: section + "\n", whole, count=1, flags=re.M | re.S)
    else:
        whole = f"{whole.rstrip()}\n\n{section}"
    with open(path, "w", encoding="utf-8") as out:
        out.write(whole.rstrip() + "\n")
