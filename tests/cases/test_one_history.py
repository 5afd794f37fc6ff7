# SPDX-License-Identifier: MIT
"""One history of many hosts: the same rows from wherever it is asked, in whatever order stores came together.
SHFS_TEST_HOSTS says of how many, SHFS_TEST_LINES how many commands each has had; with SHFS_TEST_SOAK they are 8 with 1,250
each (./dev soak)."""

import json
import os
import random

import pytest

from harness import seeds
from remotes import Directory
from postgres import Postgres
from test_forget import SECRET, places
from test_remotes import has_anywhere
from test_team import anywhere
from test_trees import machines, record

assert machines  # a fixture
LONG = "SHFS_TEST_SOAK" in os.environ
HOSTS = int(os.environ.get("SHFS_TEST_HOSTS", "8" if LONG else "3"))
LINES = int(os.environ.get("SHFS_TEST_LINES", "1250" if LONG else "6"))
NAMES = 12  # of files of each that are asked about
PATIENCE = 300 + HOSTS * LINES * 2
ROLES = "ann", "ben", "cyd", "dan"  # of PostgreSQL: each has every fourth host
SHARED = {"raw.csv": b"1,2\n3,4\n", "raw.txt": b"what all have\n" * 40}
STEPS = [
    "sort -r raw.csv > {out}",
    "rev raw.txt > {out}",
    "cat {a} {b} > {out}",
    "cp {a} {out}",
    "wc {a} >> {out}",
    "tac {a} > {out}.new; mv {out}.new {out}",
    "sed s/1/7/ {a} > {out} || true",
    "cmp -s {a} {b}; echo {n} > {out}",
]


@pytest.fixture
def postgres(sandbox):
    it = Postgres(sandbox)
    it.sql("CREATE ROLE dan LOGIN")
    yield it
    it.close()


class Laboratory:
    """Hosts with a store each, that worked with the same inputs."""

    def __init__(self, machines, sandbox, seed, hosts=HOSTS, lines=LINES):
        self.machines, self.sandbox = machines, sandbox
        self.random = random.Random(seed)
        self.hosts = [f"host{n}" for n in range(hosts)]
        self.names = {}
        for host in self.hosts:
            machines.go(host)
            for name, data in SHARED.items():
                sandbox.write(name, data)
            known = sorted(self._work(lines))
            known = self.random.sample(known, min(len(known), NAMES))
            self.names[host] = [name for name in known if sandbox.shfs("log", name, check=False).status == 0]
            sandbox.shfs("remote", "add", "own", self.remote(host))
            sandbox.shfs("push", "own")

    def remote(self, host):
        return f"{self.sandbox.home}/remote-of-{host}"

    def stores(self):
        return [f"{self.sandbox.home}/{name}-store" for name in self.machines.keepers]

    def _work(self, lines):
        known, typed = list(SHARED), []
        for n in range(lines):
            out = self.random.choice([*known, f"out{n}", f"out{n}"])
            step = self.random.choice(STEPS).format(a=self.random.choice(known), b=self.random.choice(known), out=f"./{out}", n=n)
            typed.append(step)
            if out not in known:
                known.append(out)
        record(self.sandbox, *typed)
        return known

    def take(self, place, order):
        """At a place that has all of these stores then, its own among them."""
        self.machines.go(place)
        for host in order:
            if host != place:
                self.sandbox.shfs("remote", "add", host, self.remote(host))
                self.sandbox.shfs("pull", host)

    def publish(self, postgres):
        """Each store by its role, for all."""
        for n, host in enumerate(self.hosts):
            self.machines.go(host)
            role = ROLES[n % len(ROLES)]
            self.sandbox.shfs("publish", postgres.url(role), cwd="/")
            if n < len(ROLES):
                postgres.sql("INSERT INTO shfs.share (root, role) VALUES ('', 'public')", role)

    def ask(self, place, *options):
        """{question: answer}, with each path named as another host's."""
        def rows(*args):
            result = self.sandbox.shfs(*args, *options, "--json", check=False, cwd="/")
            return result.status, named(json.loads(result.stdout), place) if result.stdout else None

        self.machines.go(place)
        found = {"history": rows("history", "--all", "-n", "100000")}
        for host in self.hosts:
            where = "" if host == place else f"{host}:"
            found["history of", host] = rows("history", "--host", host, "-n", "100000")
            for name in self.names[host]:
                for question in "log", "why", "impact":
                    found[question, host, name] = rows(question, f"{where}{self.sandbox.project}/{name}")
        return found


def named(value, place, key=""):
    if isinstance(value, dict):
        return {name: named(item, place, name) for name, item in value.items()}
    if isinstance(value, list):
        return [named(item, place, key) for item in value]
    if isinstance(value, str) and value.startswith("/") and key != "programs":  # which are named without a host
        return f"{place}:{value}"
    return value


def first_difference(one, other, where=()):
    """(keys and places of it, both sides), or None."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        pairs = [(key, one[key], other[key]) for key in one]
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        pairs = [(n, *both) for n, both in enumerate(zip(one, other))]
    else:
        return None if one == other else (where, one, other)
    return next(filter(None, (first_difference(*both, (*where, key)) for key, *both in pairs)), None)


@pytest.mark.users("ordinary")
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("seed", seeds(1, 0.5))
def test_in_any_order(machines, sandbox, postgres, seed):
    """Of stores that are pulled, and of what was published."""
    lab = Laboratory(machines, sandbox, seed)
    first = None
    for n in range(3):
        order = lab.random.sample(lab.hosts, HOSTS)
        place = f"reader{n}"
        lab.take(place, order)
        answers = lab.ask(place)
        assert all(status == 0 for status, _ in answers.values()), [q for q, a in answers.items() if a[0]]
        if n % 2:
            sandbox.shfs("reindex")
            assert not first_difference(answers, lab.ask(place))
        first = first or answers
        assert not first_difference(first, answers)
    for place in lab.random.sample(lab.hosts, 2):
        lab.take(place, lab.hosts)
        assert not first_difference(first, lab.ask(place))
    lab.publish(postgres)
    machines.go("asker")
    for role in lab.random.sample(ROLES, 2):
        assert not first_difference(first, lab.ask("asker", "--db", postgres.url(role)))


@pytest.mark.users("ordinary")
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("seed", seeds(1, 0.5))
def test_what_is_forgotten_and_what_is_lost(machines, sandbox, postgres, seed):
    """A secret that was shared is nowhere after a forget, and a lost machine comes back as it was."""
    lab = Laboratory(machines, sandbox, seed)
    teller, *others = lab.random.sample(lab.hosts, HOSTS)
    machines.go(teller)
    secret = SECRET.decode()
    record(sandbox, f"echo {secret} > told", "sort -r told > told-again")
    sandbox.shfs("push", "own")
    for place in *others, "reader":
        lab.take(place, lab.hosts)
        assert places(sandbox.store, SECRET)
    lab.publish(postgres)
    assert anywhere(postgres, secret)
    machines.go(teller)
    sandbox.shfs("forget", "--content", f"{sandbox.project}/told", "--yes", cwd="/")
    sandbox.shfs("forget", "--grep", secret, "--yes", cwd="/")
    sandbox.shfs("push", "own")
    lab.take(teller, others)
    for place in lab.random.sample([*others, "reader"], HOSTS):
        machines.go(place)
        sandbox.shfs("pull", teller)
        if place != "reader":
            sandbox.shfs("push", "own")
    told = [place for store in lab.stores() for place in places(store, SECRET)]
    for host in lab.hosts:
        kind = Directory(sandbox)
        kind.path = lab.remote(host)
        told += has_anywhere(kind, SECRET)
    assert not told
    for n, host in enumerate(lab.hosts):
        machines.go(host)
        sandbox.shfs("publish", postgres.url(ROLES[n % len(ROLES)]), cwd="/")
    assert not anywhere(postgres, secret)
    postgres.sql("VACUUM FULL")
    postgres.sql("CHECKPOINT")
    for directory, _, names in os.walk(f"{postgres.path}/data/base"):
        for name in names:
            with open(f"{directory}/{name}", "rb") as file:
                assert SECRET not in file.read(), name

    answers = lab.ask(teller)
    sandbox.run("rm", "-rf", sandbox.store, cwd="/")
    sandbox.shfs("clone", lab.remote(teller), cwd="/")
    lab.take(teller, others)
    assert not first_difference(answers, lab.ask(teller))
    assert sandbox.shfs("check", "--read-data", cwd="/").stdout.endswith("no flaws\n")
