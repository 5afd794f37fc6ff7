# SPDX-License-Identifier: MIT
"""Exports of random work at a prompt (pipelines.py), each run in an empty directory with nothing but what it brings:
what comes out is what lies in the project, or the export says before that it may not be, with a reason that is true.
SHFS_TEST_SEEDS says with which numbers, SHFS_TEST_LINES how many lines each has; with SHFS_TEST_SOAK it goes on with
others (./dev soak)."""

import os
import re

import pytest

from exports import WITH_TOOLS, argv_of
from harness import contents, project_files, seeds
from pipelines import SHELL_STATE, Edits, each_way, hand_over

pytestmark = pytest.mark.either

SEEDS = seeds(4, an_hour=900)
N_LINES = int(os.environ.get("SHFS_TEST_LINES", "10"))
NO_REASON = "copied from where|outside of the directory in which it runs"
SLOW = ("cwl", "nextflow", "snakemake")  # take seconds to start: one of them for each fourth project, and of one file
FORMS = os.environ.get("SHFS_TEST_FORMS", "sh make").split()


def run_export(sandbox, form, path, top):
    """The files that an export makes where there is nothing else."""
    home = sandbox.mkdir(f"{top}.home")
    clean = ["env", "-i", f"PATH={sandbox.env['PATH']}", f"HOME={home}", f"TMPDIR={home}", "LC_ALL=C.UTF-8"]
    clean += [f"{name}={value}" for name, value in sandbox.env.items() if name.endswith("SAN_OPTIONS")]
    done = sandbox.run(*clean, *argv_of(form, path, top), cwd=top, check=False, timeout=60)
    return done, contents(f"{top}/results" if form in WITH_TOOLS else top)


class Checked:
    """The exports of one project."""

    def __init__(self, sandbox, work, truth):
        self.sandbox, self.work, self.truth = sandbox, work, truth
        self.n = 0

    def says(self):
        return "\n".join(self.work.lines)

    def check(self, form, name):
        self.n += 1
        path = os.path.join(self.sandbox.path, f"export-{self.n}")
        told = self.sandbox.shfs("export", "-o", path, form, "--", name, check=False)
        case = f"{form} {name}: {told.stderr}\n{self.says()}"
        if told.status:
            assert self.is_true(told), case
            return False
        top = self.sandbox.mkdir(f"{path}.top")
        done, found = run_export(self.sandbox, form, path, top)
        assert done.status == 0, f"{case}\n{done!r}"
        assert found.get(name) == self.truth[name], f"{case}\n{found.get(name)}\nnot {self.truth[name]}"
        return True

    def is_true(self, told):
        """It is about a line that needs what only its shell knew, or what lies elsewhere; or about a file that was
        only read, got another time, and then another content: that it was the same is not proven; or what a file
        elsewhere held before it was appended to is not known."""
        reasons = [line for line in told.stderr.splitlines() if "warning: " in line and not re.search(NO_REASON, line)]
        touched = any(line.startswith("touch ") for line in self.work.lines)
        return told.status == 3 and all(any(line[:30] in reason for line in self.work.needy_lines)
                                        or (touched and "is not there any more" in reason)
                                        or (self.may_lack() and "another command left" in reason) for reason in reasons)

    def may_lack(self):
        return ">> $TMPDIR" in self.says()


@pytest.mark.parametrize("seed, agent", each_way(SEEDS, 1))
def test_exports_of_random_work(sandbox, shell, seed, agent):
    # a shell of an agent knows nothing of those before
    work = Edits(seed, needy=seed % 4 == 0 and not agent, kept=seed % 2 == 1, seen=agent)
    work.lay_out(lambda name, text: sandbox.write_outside(f"{sandbox.project}/{name}", text))
    sandbox.mount()
    terminal = shell()
    terminal.run(f" {SHELL_STATE}")
    if agent:
        hand_over(sandbox, terminal, seed)
    files = sorted(work.inputs)
    for _ in range(N_LINES):
        terminal.run(work.next(files))
        files = sorted(project_files(sandbox))
    checked = Checked(sandbox, work, project_files(sandbox))
    made = [name for name in files if checked.truth[name] != work.inputs.get(name, "").encode() and name not in ("script", "Makefile")]
    chosen = work.some(made, 3)
    n_right = sum([checked.check(form, name) for name in chosen for form in FORMS])
    if seed % 4 == 3:
        n_right += sum([checked.check(SLOW[seed // 4 % 3], name) for name in chosen[:1]])
    # nothing is refused that can be done
    exceptions = work.needy_lines or "touch " in checked.says() or checked.may_lack()
    assert n_right == checked.n or exceptions, checked.says()
