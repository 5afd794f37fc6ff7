# SPDX-License-Identifier: MIT
"""What is concluded from the record, beside what really comes out: random lines at a prompt (pipelines.py),
an input that changes, and a full run elsewhere. A rerun makes the tree that of the full run, but for what it
refuses, which stays as it was. SHFS_TEST_SEEDS says with which numbers, SHFS_TEST_LINES how many lines each has,
SHFS_TEST_KINDS of which kinds; with SHFS_TEST_SOAK it goes on with others (./dev soak)."""

import io
import json
import os
import tarfile
import zlib

import pytest

from pipelines import INPUTS, LINES, Pipelines

pytestmark = pytest.mark.either

HOURS = float(os.environ.get("SHFS_TEST_SOAK", "0"))
if HOURS:  # about 2 s each
    SEEDS = [zlib.crc32(os.environ["SHFS_TEST_DIR"].encode()) + n for n in range(int(HOURS * 1800))]
else:
    SEEDS = [int(seed) for seed in os.environ.get("SHFS_TEST_SEEDS", "1 2 3 4 5 6 7 8").split()]
N_LINES = int(os.environ.get("SHFS_TEST_LINES", "8"))
KINDS = os.environ.get("SHFS_TEST_KINDS", " ".join(LINES)).split()


def stale(sandbox):
    found = json.loads(sandbox.shfs("stale", "--json", check=False).stdout)
    return {os.path.basename(r["path"]) for command in found["commands"] for r in command["results"]}


def contents(sandbox):
    # root may not look into a mount of somebody else's
    with tarfile.open(fileobj=io.BytesIO(sandbox.run("tar", "c", ".").stdout_bytes)) as tar:
        return {os.path.basename(m.name): tar.extractfile(m).read() for m in tar if m.isfile()}


@pytest.mark.parametrize("seed", SEEDS)
def test_stale_and_rerun_beside_a_full_run(sandbox, shell, tmp_path, seed):
    work = Pipelines(seed, KINDS, N_LINES)
    work.lay_out(lambda name, text: sandbox.write_outside(f"{sandbox.project}/{name}", text))
    sandbox.mount()
    terminal, change = shell(), work.change()
    for line in work.lines:
        terminal.run(line)
    assert stale(sandbox) == set(), work.lines
    before = contents(sandbox)
    terminal.run(change)
    os.mkdir(tmp_path / "full")
    truth = work.executed(str(tmp_path / "full"), change)
    wanted = {name for name, content in truth.items() if content != before[name]} - set(INPUTS)
    found = stale(sandbox)
    said = "\n".join([*work.lines, change])
    assert wanted <= found, f"missing {wanted - found}\n{said}"
    assert found <= wanted, f"too many {found - wanted}\n{said}"
    changed = contents(sandbox)
    run = sandbox.shfs("rerun", "--json", "--yes", check=False)
    assert run.status in (0, 4), f"{run!r}\n{said}"
    made = {}  # by the last command that makes each
    commands = json.loads(run.stdout)["commands"] if run.stdout else []
    for command in sorted(commands, key=lambda c: c["begin"]):
        made |= dict.fromkeys((os.path.basename(r["path"]) for r in command["results"]), command["state"])
    stays = {name for name, state in made.items() if state in ("refused", "left_out")} if made else wanted
    now = contents(sandbox)
    differs = {name for name in truth if now.get(name) != (changed if name in stays else truth)[name]}
    assert not differs, f"rerun, which left {stays}: {differs}\n{said}"


def sources(sandbox, name):
    graph = json.loads(sandbox.shfs("why", "--json", name).stdout)
    return {os.path.basename(version["path"]) for version in graph["versions"] if version["is_source"]} & set(INPUTS)


@pytest.mark.parametrize("seed", SEEDS)
def test_why_beside_full_runs(sandbox, shell, tmp_path, seed):
    """What a file depends on is what changes it; also by way of files where nothing is recorded."""
    work = Pipelines(seed, KINDS, N_LINES, between=True)
    work.lay_out(lambda name, text: sandbox.write_outside(f"{sandbox.project}/{name}", text))
    sandbox.mount()
    terminal = shell()
    for line in work.lines:
        terminal.run(line)
    made = contents(sandbox)
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
