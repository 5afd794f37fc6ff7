# SPDX-License-Identifier: MIT
"""What is concluded from the record, beside what really comes out: random lines at a prompt, or of an agent
(pipelines.py), an input that changes, and a full run elsewhere. A rerun makes the tree that of the full run, but for what it
refuses, which stays as it was. SHFS_TEST_SEEDS says with which numbers, SHFS_TEST_LINES how many lines each has,
SHFS_TEST_KINDS of which kinds; with SHFS_TEST_SOAK it goes on with others (./dev soak)."""

import json
import os
import random

import pytest

from harness import project_files, seeds, stale_results
from pipelines import INPUTS, LINES, Pipelines, each_way, hand_over

pytestmark = [pytest.mark.either, pytest.mark.software]

SEEDS = seeds(8, an_hour=1800)
N_LINES = int(os.environ.get("SHFS_TEST_LINES", "8"))
KINDS = os.environ.get("SHFS_TEST_KINDS", " ".join(kind for kind in LINES if kind != "rounds")).split()


def begin(sandbox, shell, work, agent=None):
    """A shell in the mounted project, with the inputs laid out in it and outside; agent: a number, for one in it."""
    data = f"{sandbox.home}/data"
    sandbox.run("mkdir", data)
    work.lay_out(lambda name, text: sandbox.write_outside(f"{sandbox.project}/{name}", text),
                 lambda name, text: sandbox.write_outside(f"{data}/{name}", text))
    sandbox.mount()
    terminal = shell()
    terminal.run(f"export DATA={data}")
    if agent is not None:
        hand_over(sandbox, terminal, agent)
    return terminal


def check_rerun(sandbox, truth, wanted, said):
    """The tree becomes the truth, but for what is refused. wanted: what is stale."""
    changed = project_files(sandbox)
    run = sandbox.shfs("rerun", "--json", "--yes", check=False)
    assert run.status in (0, 4), f"{run!r}\n{said}"
    made = {}  # by the last command that makes each
    commands = json.loads(run.stdout)["commands"] if run.stdout else []
    for command in sorted(commands, key=lambda c: c["begin"]):
        made |= dict.fromkeys((os.path.basename(r["path"]) for r in command["results"]), command["state"])
    stays = {name for name, state in made.items() if state in ("refused", "left_out")} if made else wanted
    now = project_files(sandbox)
    differs = {name for name in truth if now.get(name) != (changed if name in stays else truth)[name]}
    assert not differs, f"rerun, which left {stays}: {differs}\n{said}"


@pytest.mark.parametrize("seed, agent", each_way(SEEDS, 2))
def test_stale_and_rerun_beside_a_full_run(sandbox, shell, tmp_path, seed, agent):
    work = Pipelines(seed, KINDS, N_LINES, between=True, copies=False)
    terminal, change = begin(sandbox, shell, work, seed if agent else None), work.change()
    for line in work.lines:
        terminal.run(line)
    assert stale_results(sandbox) == set(), work.lines
    before = project_files(sandbox)
    terminal.run(change)
    os.mkdir(tmp_path / "full")
    truth = work.executed(str(tmp_path / "full"), change)
    wanted = {name for name, content in truth.items() if content != before[name]} - set(INPUTS)
    found = stale_results(sandbox)
    said = "\n".join([*work.lines, change])
    assert wanted <= found, f"missing {wanted - found}\n{said}"
    assert found <= wanted, f"too many {found - wanted}\n{said}"
    check_rerun(sandbox, truth, wanted, said)


def sources(sandbox, name):
    graph = json.loads(sandbox.shfs("why", "--json", name).stdout)
    return {os.path.basename(version["path"]) for version in graph["versions"] if version["is_source"]} & set(INPUTS)


@pytest.mark.parametrize("seed, agent", each_way(SEEDS, 1))
def test_why_beside_full_runs(sandbox, shell, tmp_path, seed, agent):
    """What a file depends on is what changes it; also by way of files where nothing is recorded."""
    work = Pipelines(seed, KINDS, N_LINES, between=True)
    terminal = begin(sandbox, shell, work, seed if agent else None)
    for line in work.lines:
        terminal.run(line)
    made = project_files(sandbox)
    for name in INPUTS:
        os.mkdir(tmp_path / name)
    runs = {name: work.executed(str(tmp_path / name), work.change(name)) for name in INPUTS}
    said, false = "\n".join(work.lines), []
    for name in set(made) - set(INPUTS) - {"script"}:
        truth = {source for source, run in runs.items() if run[name] != made[name]}
        found = sources(sandbox, name)
        assert truth <= found, f"{name}: missing {truth - found}\n{said}"
        false += [(name, source) for source in found - truth]
    assert len(false) <= len(made) * len(INPUTS) * 0.02, f"too many {false}\n{said}"


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_missing_of_rounds(sandbox, shell, tmp_path, seed):
    """Where rounds of a loop leave files outside, there may be more than it takes: any later process may have read them."""
    work = Pipelines(seed, ["rounds", "plain", "elsewhere"], N_LINES, between=True, copies=False)
    terminal, change = begin(sandbox, shell, work), work.change()
    for line in work.lines:
        terminal.run(line)
    before = project_files(sandbox)
    os.mkdir(tmp_path / "full")
    truth = work.executed(str(tmp_path / "full"), change)
    wanted = {name for name, content in truth.items() if content != before[name]} - set(INPUTS)
    said = "\n".join([*work.lines, change])
    assert all(work.changed in sources(sandbox, name) for name in wanted), said
    terminal.run(change)
    assert wanted <= stale_results(sandbox), said
    check_rerun(sandbox, truth, wanted, said)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_restored_is_as_stale_as_it_was(sandbox, shell, seed):
    """Random restores, also of inputs and to other places, runs and changes: a result is stale where it is not
    what all lines would make now."""
    chosen = random.Random(seed)
    # each content is once there, and no line hides a change of what it reads
    makers = {"mid": "sort -r in > mid", "out": "cat mid in2 > out", "late": "rev out > late"}
    versions = dict.fromkeys(["in", "in2", *makers], 0)
    sandbox.mount()
    sandbox.sh("seq 9 > in; seq 5 > in2")
    terminal, said = shell(), []

    def run(line):
        said.append(line)
        return terminal.run(line)

    for line in makers.values():
        run(line)
    for n in range(12):
        name = chosen.choice(list(versions))
        kind = chosen.choice(("change", "make", "restore", "restore", "damage", "all"))
        if kind == "change":
            run(f"echo {n}{chosen.getrandbits(32):x} >> {chosen.choice(['in', 'in2'])}")
        elif kind == "make" and name in makers:
            run(makers[name])
        elif kind == "all":
            for line in makers.values():
                run(line)
        else:
            if kind == "damage":
                run(f"echo damage {n} > {name}" if chosen.random() < 0.5 else f"rm {name}")
            # the last one that was no damage
            listed = json.loads(sandbox.shfs("log", "--json", name).stdout)["versions"]
            good = [v["n"] for v in listed if not sandbox.shfs("cat", f"{name}@{v['n']}").stdout.startswith("damage")]
            run(f"shfs restore {name}@{chosen.choice(good)}")

    def made_of(files):
        mid = b"".join(sorted(files["in"].splitlines(True), reverse=True))
        rev = b"".join(line[::-1] + b"\n" for line in files["out"].splitlines())
        return {"mid": mid, "out": files["mid"] + files["in2"], "late": rev}

    now = project_files(sandbox)
    truth = dict(now)
    for name in makers:
        truth[name] = made_of(truth)[name]
    # also what is right, but not what its line would make of what is there
    wanted = {name for name in makers if not now[name] == truth[name] == made_of(now)[name]}
    assert stale_results(sandbox) == wanted, "\n".join(said)
    sandbox.shfs("rerun", "--yes")
    assert project_files(sandbox) == truth and stale_results(sandbox) == set(), "\n".join(said)
