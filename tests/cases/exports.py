# SPDX-License-Identifier: MIT
"""Exports of one format, run in empty directories, for the cases about them."""

import os
import subprocess

from harness import contents
from hostile import encoded


def empty(sandbox, name="again"):
    return sandbox.mkdir(os.path.join(sandbox.path, name))


class Export:
    """One format: exports, and runs in an empty directory."""

    def __init__(self, sandbox, name):
        self.sandbox, self.name = sandbox, name

    def text(self, *files, **options):
        return self.sandbox.shfs("export", self.name, "--", *files, **options)

    def run(self, *files, check=True):
        """The files that are there in the end."""
        n = len(os.listdir(self.sandbox.path))
        path = os.path.join(self.sandbox.path, f"{self.name}-{n}")
        self.sandbox.shfs("export", "-o", path, self.name, "--", *files)
        return self.start(path, empty(self.sandbox, f"again-{n}"), check)

    def start(self, path, top, check):
        getattr(self, f"start_{self.name}")(path, top, check)
        return contents(os.path.join(top, "results") if self.name == "cwl" else top)

    def start_sh(self, path, top, check):
        subprocess.run(["shellcheck", path], check=True)
        self.result = self.sandbox.run("bash", path, top, cwd="/", check=check)

    def start_make(self, path, top, check):
        self.result = self.sandbox.run("make", "-j4", "-f", path, cwd=top, check=check)
        # all is done, and nothing would be done again
        if check is True:
            self.sandbox.run("make", "-q", "-f", path, cwd=top)

    def start_cwl(self, path, top, check):
        cwltool = ["cwltool", "--quiet", "--preserve-entire-environment"]
        valid = self.sandbox.run(*cwltool, "--validate", path, cwd=top, timeout=60)
        assert not valid.stderr and "is valid CWL" in valid.stdout
        self.result = self.sandbox.run(*cwltool, "--outdir", top, path, cwd=top, check=check, timeout=60)

    def start_snakemake(self, path, top, check):
        snakemake = ["snakemake", "-q", "-s", path]
        lint = self.sandbox.run("snakemake", "-s", path, "--lint", cwd=top, timeout=60)
        assert "Congratulations" in lint.stderr, lint
        self.sandbox.run(*snakemake, "-n", cwd=top, timeout=60)
        self.result = self.sandbox.run(*snakemake, "-c4", cwd=top, check=check, timeout=60)


def same(sandbox, found, *names):
    for name in names:
        assert found[name] == sandbox.read(b"./" + encoded(name)), name
