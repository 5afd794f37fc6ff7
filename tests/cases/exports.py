# SPDX-License-Identifier: MIT
"""Exports of one format, run in empty directories, for the cases about them."""

import os
import pathlib
import subprocess

from harness import contents
from hostile import encoded

NEXTFLOW = pathlib.Path(__file__).parents[1] / "nextflow.groovy"
WITH_TOOLS = ("cwl", "nextflow")  # they put the results into a directory


def empty(sandbox, name="again"):
    return sandbox.mkdir(os.path.join(sandbox.path, name))


def argv_of(form, path, top):
    """How an export is run, in the directory top."""
    return {
        "sh": ["bash", path, top],
        "make": ["make", "-j4", "-f", path],
        "snakemake": ["snakemake", "-q", "-c4", "-s", path],
        "cwl": ["cwltool", "--quiet", "--preserve-entire-environment", "--outdir", top, path],
        "nextflow": ["groovy", "-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8", NEXTFLOW, path, top, top],
    }[form]


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
        self.look_at(path, top)
        cwd = "/" if self.name == "sh" else top
        self.result = self.sandbox.run(*argv_of(self.name, path, top), cwd=cwd, check=check, timeout=60)
        if self.name == "make" and check is True:  # all is done, and nothing would be done again
            self.sandbox.run("make", "-q", "-f", path, cwd=top)
        return contents(os.path.join(top, "results") if self.name in WITH_TOOLS else top)

    def look_at(self, path, top):
        """What checks that format finds nothing wrong in it."""
        if self.name == "sh":
            subprocess.run(["shellcheck", path], check=True)
        elif self.name == "snakemake":
            lint = self.sandbox.run("snakemake", "-s", path, "--lint", cwd=top, timeout=60)
            assert "Congratulations" in lint.stderr, lint


def same(sandbox, found, *names):
    for name in names:
        assert found[name] == sandbox.read(b"./" + encoded(name)), name
