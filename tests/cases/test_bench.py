# SPDX-License-Identifier: MIT
"""The benchmark itself: each kind of work, with what this machine has, small and once."""

import contextlib
import importlib
import json
import os
import subprocess
import sys

import pytest
from harness import PREFIX, WORK

BENCH = os.path.join(os.path.dirname(__file__), "../../bench")


def bench(*args, prefix=PREFIX, check=True):
    if os.geteuid() != 0:
        pytest.skip("needs root: it mounts a file system")
    argv = [sys.executable, f"{BENCH}/run.py", "--prefix", prefix, "--quick", *args]
    env = {**os.environ, "TMPDIR": WORK}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=120)
    with contextlib.suppress(ChildProcessError):  # daemons that it has had, as we are their subreaper
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    assert (done.returncode == 0) == check, done.stdout + done.stderr
    return done


def leftovers():
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
        return [line for line in mounts if f"{WORK}/shfs-bench." in line]


def test_work_is_timed_and_counted(tmp_path):
    """On each mount that this machine can have, against a peer: times, CPU, and nothing stays mounted."""
    only = [f"--only={name}" for name in ("shfs-uring", "shfs-dev", "pass-uring", "pass-dev", "strace")]
    bench(*only, f"--json={tmp_path}/out", "cp-new", "open-write")
    with open(tmp_path / "out", encoding="ascii") as out:
        copy, loop = json.load(out)
    archivers = [v["samples"][0]["archiver_cpu"] for v in copy["variants"] if v["name"].startswith("shfs") and v["samples"]]
    assert all(archivers), "what no store has yet was archived for nothing?"
    for work in copy, loop:
        measured = {v["name"]: v["samples"] for v in work["variants"] if not v["missing"]}
        assert {"native", "shfs-dev"} <= set(measured)
        for name, samples in measured.items():
            assert all(s["seconds"] > 0 and s["native"]["seconds"] > 0 for s in samples), name
            assert len(samples) == (len(measured) - 1 if name == "native" else 1)
            if name.startswith(("shfs", "pass")):
                assert samples[0]["own_cpu"] > 0, "the mount's process did all of it for nothing?"
        assert all(v["missing"] for v in work["variants"] if not v["samples"])
    assert loop["variants"][0]["samples"][0]["seconds"] < copy["variants"][0]["samples"][0]["seconds"]
    assert not leftovers()


def test_drivers_are_timed_where_they_attach(tmp_path):
    """Each against native, whose directory nobody watches meanwhile; with the closes that were recorded."""
    names = ("module", "bpf", "bpf-tracepoints", "fanotify")
    said = bench(*[f"--only={name}" for name in names], f"--json={tmp_path}/out", "cp", "elsewhere").stdout
    with open(tmp_path / "out", encoding="ascii") as out:
        copy, elsewhere = json.load(out)
    measured = {v["name"]: v["samples"] for v in copy["variants"] if v["name"] in names and not v["missing"]}
    assert "fanotify" in measured
    for name, samples in measured.items():
        assert samples[0]["own_cpu"] > 0 and samples[0]["closes"][1] == 200, (name, samples)
    assert not any(any(s["closes"]) for v in elsewhere["variants"] if v["name"] in names for s in v["samples"])
    assert copy["opens"] >= 400
    assert "* module: (" in said
    assert not leftovers()


def test_the_hook_at_the_prompt_is_timed():
    said = bench("prompt").stdout
    assert "| bash" in said
    assert "added, median" in said


def test_the_memory_of_a_mount_is_watched():
    said = bench("memory").stdout
    assert "/dev/fuse" in said and "most" in said


def test_what_fails_is_unmounted_and_told(tmp_path):
    """A server that does not start: no figures, but the reason, and nothing stays."""
    broken = tmp_path / "libexec/shfs"
    broken.mkdir(parents=True)
    (broken / "shfs-fuse").write_text('#!/bin/sh\n[ "$1" = --help ] || { echo no luck >&2; exit 5; }\n')
    (broken / "shfs-fuse").chmod(0o755)
    for directory in [tmp_path, *tmp_path.parents]:
        if directory.stat().st_mode & 0o055 != 0o055 and str(directory).startswith(os.environ["SHFS_TEST_DIR"]):
            directory.chmod(0o755)
    (tmp_path / "bin").mkdir()
    os.symlink(f"{PREFIX}/bin/shfs", tmp_path / "bin/shfs")
    done = bench("--only=shfs-dev", "stat", prefix=str(tmp_path), check=False)
    assert "no luck" in done.stderr
    assert not leftovers()


def test_bars_are_judged():
    """Of a work with known figures: each bar is there, and met only if the figure is."""
    sys.path.insert(0, BENCH)
    try:
        report = importlib.import_module("report")
    finally:
        sys.path.remove(BENCH)

    def variant(name, kind, seconds, cpu, own):
        native = {"seconds": 1.0, "cpu": 1.0}
        samples = [{"seconds": seconds, "cpu": cpu, "own_cpu": own, "archiver_cpu": own / 2, "closes": None, "native": native}] * 3
        return {"name": name, "title": name, "kind": kind, "missing": None, "samples": samples, "requests": {}}

    def said(work, name, kind, seconds, cpu, own):
        data = {"name": work, "quick": False, "operations": 1, "units": ("file", 20000)}
        mine = variant(name, kind, seconds, cpu, own)
        data["variants"] = [variant("native", "native", 1.0, 1.0, 0.0), mine]
        return report.bars_cell(data, mine)

    assert said("cp", "shfs-dev", "unprivileged", 3.9, 2.0, 1.4) == "≤ 4 met; ≤ 3.5 in CPU (3.40) met"
    assert said("cp", "shfs-dev", "unprivileged", 4.1, 2.0, 1.6) == "≤ 4 MISSED; ≤ 3.5 in CPU (3.60) MISSED"
    assert said("cp", "shfs-uring", "unprivileged", 3.1, 2.0, 1.0) == "≤ 3 MISSED; ≤ 3.5 in CPU (3.00) met"
    assert said("open-write", "shfs-dev", "unprivileged", 109e-6, 0.0, 0.0) == "≤ 110 µs met"
    assert said("record-python", "shfs-record", "record", 2.0, 1.0, 1.1) == "≤ 2 in CPU (2.10) MISSED"
    assert said("cp", "fanotify", "driver", 1.04, 1.08, 0.0) == "≤ 1.05 met; ≤ 3 µs added (4 µs) MISSED"
    assert said("cp-new", "shfs-dev", "unprivileged", 4.0, 2.0, 1.0) == "≤ 28 µs to archive (25 µs) met"
    assert said("elsewhere", "fanotify", "driver", 1.0, 1.02, 0.0) == "≤ 0.5 µs added (1 µs) MISSED"
    assert said("cp", "native", "native", 1.0, 1.0, 0.0) == ""
