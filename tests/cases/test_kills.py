# SPDX-License-Identifier: MIT
"""The process of a mount is killed at any instant, and at each of its system calls, while programs write.
SHFS_TEST_KILLS sets how often, and has all calls tried (./dev kills)."""

import collections
import os
import random
import signal

import pytest

import kills
from test_injected import sites_of

KILLS = int(os.environ.get("SHFS_TEST_KILLS", "0"))
TRANSPORTS = pytest.mark.transports if KILLS else lambda test: test
IN_A_LIFE = 5 if KILLS else 4  # as often in a minute it comes again
LIVES = 5 if KILLS else 1  # of one store
STORES = -(-KILLS // IN_A_LIFE // LIVES // 4) or 1
PARTS = 8 if KILLS else 1


@pytest.fixture
def may_die(sandbox):
    sandbox.allow_exit(-signal.SIGKILL)
    sandbox.allow_log("ended")


@pytest.mark.timeout(1200)
@TRANSPORTS
@pytest.mark.parametrize("number", range(STORES))
def test_killed_at_any_instant(may_die, sandbox, transport, number):
    seed = f"{sandbox.user.name}{transport}{number}"
    rng = random.Random(seed)
    for life in range(LIVES):
        moments = [rng.random() ** 2 * (1.2 if KILLS else 0.5) for _ in range(IN_A_LIFE)]
        top = sandbox.mkdir(f"{sandbox.home}/{life}")
        kills.expect(kills.life(sandbox, top, f"{seed}-{life}", moments))


@pytest.mark.timeout(3600 if KILLS else 120)
@pytest.mark.users(*(("root", "ordinary") if KILLS else ("ordinary",)))
@TRANSPORTS
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_each_call(may_die, sandbox, transport, part):
    found, trace = kills.session(sandbox, sandbox.mkdir(f"{sandbox.home}/whole"), "whole")
    kills.expect(found)
    sites = [(call, nth) for call, nth, _ in sites_of(trace)]
    chosen = sites[part::PARTS] if KILLS else random.Random(0).sample(sites, 2)
    counts, problems = collections.Counter(), []
    for n, site in enumerate(chosen):
        found, _ = kills.session(sandbox, sandbox.mkdir(f"{sandbox.home}/{n}"), f"n{n}", site)
        counts.update(found.counts)
        problems += [f"{site}: {problem}" for problem in found.problems]
    print(f"{len(sites)} sites, {len(chosen)} tried, {dict(counts)}")
    assert not problems, "\n".join(problems[:20])
