# SPDX-License-Identifier: MIT
"""The BPF programs on functions of the kernel (driver "bpf"), in a virtual machine."""

import os
import re
import subprocess

import pytest

import harness
from test_vm import EDGES, KERNELS, TOOL, VM, events, names_closed, pytestmark  # noqa: F401


@pytest.fixture(params=KERNELS)
def machine(request, tmp_path):
    programs = []
    for program in ("edges", "opens"):
        programs.append(str(tmp_path / program))
        options = ["-D_GNU_SOURCE", "-O2", "-static", "-pthread", "-o", programs[-1]]
        subprocess.run(["gcc", *options, f"{VM}/{program}.c"], check=True)

    def run(script, *options):
        command = [f"{VM}/run", "--timeout", str(150 * harness.PATIENCE), *options, request.param]
        command += [os.path.join(VM, script), TOOL, *programs]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


def test_edges(machine):
    told = events(machine("bpf-edges.sh"), "edges")
    closes = {event.text: event for event in told if event.type == "CLOSE"}
    assert len(closes) == len(names_closed(told)), "each file is closed once"
    for name, (has, has_not) in EDGES.items():
        flags = closes[name].flags
        # a file that has no name, or another, by the time that it is looked for
        if name in ("saved.tmp", "unlinked-while-open"):
            has = has - {"PINNED"}
        assert has <= flags and not has_not & flags, closes[name]
    assert "path-only" not in closes
    assert not [event for event in told if event.type == "LOST"]

    me = next(event.pid for event in told if event.type == "EXEC" and event.text == "/bin/edges")
    children = {int(event.more["child"]) for event in told if event.type == "FORK" and event.pid == me}
    for name in ("inherited", "killed", "in-flight", "map-written-after-close", "by-ring"):
        assert closes[name].pid == me, closes[name]
    for name in ("written-by-two", "written-by-setuid", "map-until-exit", "close-on-exec"):
        assert closes[name].pid in children, closes[name]
    writers = [event.pid for event in told if event.type == "WRITE" and event.text == "written-by-two"]
    assert writers == [me, closes["written-by-two"].pid]

    others = [(event.type, event.text, event.text2) for event in told]
    assert ("TRUNCATE", "truncated-by-name", "") in others
    assert ("RENAME", "saved.tmp", "saved") in others
    assert ("UNLINK", "unlinked-while-open", "") in others
    made = next(event for event in told if event.type == "LINK" and event.text2 == "linked")
    assert made.text == "" and closes["linked"].more["ino"] == made.more["ino"]
    for child in children - {closes["written-by-setuid"].pid}:
        assert [event.type for event in told if event.pid == child].count("EXIT") == 1, child
    ended = [event.type for event in told if event.pid == closes["map-until-exit"].pid]
    assert ended[-2:] == ["CLOSE", "EXIT"]


def test_instructions(machine):
    """The bars: 1,400 for what is told, 300 for what is not."""
    said = machine("bpf-count.sh", "--icount")
    counts = {name: int(count) for name, count in re.findall(r"^(\w+ \w+) read (\d+)$", said, re.M)}
    assert counts["watching 1000"] - counts["user without"] < 1400, counts
    assert counts["watching outside"] - counts["outside without"] <= 300, counts
    assert counts["watching 0"] - counts["root without"] <= 300, counts
