# SPDX-License-Identifier: MIT
"""A PostgreSQL server for one case: as the case's user, on a Unix socket alone, in a directory of its own."""

import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.parse

import harness
from harness import wait_until

PROGRAMS = sorted(glob.glob("/usr/lib/postgresql/*/bin"))


class Postgres:
    def __init__(self, sandbox):
        # it refuses root
        self.user = sandbox.user if sandbox.user.uid else harness.User("ordinary")
        self.path = tempfile.mkdtemp(prefix="pg-", dir="/tmp")  # a socket's path is short
        self.user.own(self.path)
        os.chmod(self.path, 0o755)  # root asks as well
        self.log = open(f"{self.path}/log", "wb")
        # made once for each worker, whose user is its own
        first = os.path.join(os.environ["SHFS_TEST_DIR"], f"postgres-{self.user.login}")
        if not os.path.exists(first):
            self.make()
            self.stop()
            shutil.rmtree(f"{first}.new", ignore_errors=True)
            subprocess.run(["cp", "-a", f"{self.path}/data", f"{first}.new"], check=True)
            os.rename(f"{first}.new", first)
        else:
            subprocess.run(["cp", "-a", first, f"{self.path}/data"], check=True)
        self.start()

    def make(self):
        options = ["-A", "trust", "-U", "admin", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        with self._popen("initdb", "-D", f"{self.path}/data", *options) as initdb:
            assert initdb.wait() == 0, self.said()
        self.start()
        self.sql("CREATE DATABASE lab", database="postgres")
        for role in "ann", "ben", "cyd":
            self.sql(f"CREATE ROLE {role} LOGIN")
        self.sql("GRANT CREATE ON DATABASE lab TO ann")

    def _popen(self, program, *args):
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        argv = [f"{PROGRAMS[-1]}/{program}", *args]
        return self.user.popen(argv, self.path, env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def said(self):
        with open(f"{self.path}/log", encoding="utf-8", errors="replace") as log:
            return log.read()

    def start(self):
        off = "fsync", "full_page_writes", "jit"  # whose compilations take longer than all else
        options = [word for name in off for word in ("-c", f"{name}=off")]
        self.server = self._popen("postgres", "-D", f"{self.path}/data", "-k", self.path, "-h", "", *options)
        wait_until(lambda: self.psql("-c", "SELECT 1", database="postgres").returncode == 0, "the server", 60)

    def stop(self, how=signal.SIGINT):
        self.server.send_signal(how)
        self.server.wait()

    def close(self):
        self.stop()
        self.log.close()
        shutil.rmtree(self.path)

    def url(self, role="ann", database="lab"):
        return f"postgresql://{role}@/{database}?host={urllib.parse.quote(self.path, safe='')}"

    def psql(self, *args, role="admin", database="lab"):
        argv = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", self.path, "-U", role, database, *args]
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": self.path, "PGTZ": "UTC"}
        return subprocess.run(argv, env=env, capture_output=True, check=False)

    def sql(self, sql, role="admin", database="lab"):
        """What psql prints, a line for each row."""
        done = self.psql("-A", "-t", "-c", sql, role=role, database=database)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode("utf-8").splitlines()

    def rows(self, sql, role="ann"):
        """Rows as lists: numbers, texts and None; bytes as \\x and digits."""
        return [list(json.loads(line).values()) for line in self.sql(f"SELECT row_to_json(x) FROM ({sql}) AS x", role)]
