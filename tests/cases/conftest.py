# SPDX-License-Identifier: MIT
"""Fixtures of the cases; harness.py has what they are made of.

    user      root or ordinary: a case that uses it runs as both (mark `users` to choose, `either`
              where nothing depends on it)
    sandbox   the user's HOME, store and environment; ends and checks all that the case started
    project   the directory of the case, not mounted yet
    mount     mount(dir=project, *options) -> Mount: shfs-fuse in the foreground
    mounted   the project, mounted
    work      a shell in it, beside the files of a small analysis
    twins     twins.run(script): in a plain directory and on a mount, with equal output
    shfs      shfs(*args, check=True or a status) -> Result
    shell     shell(kind, before="", after="") -> Shell: an interactive one with the hook loaded
"""

import itertools
import os
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import harness
from analysis import lay_out
from twins import Twins

numbers = itertools.count(1)


def backends_of(mark):
    if mark.kwargs.get("by_hand") and "SHFS_TEST_BACKENDS" not in os.environ:
        return ["fuse"]
    return [b for b in harness.BACKENDS if b not in mark.kwargs.get("without", ())]


def pytest_generate_tests(metafunc):
    marked = metafunc.definition.get_closest_marker
    users, backends = marked("users"), marked("backends")
    one = marked("either") and not marked("both") and not harness.ALL
    names = users.args if users else ("ordinary",) if one else ("ordinary", "root")
    if backends:
        # whose events root is told is seen in the cases that are for root
        both = itertools.product(names, backends_of(backends))
        some = [(n, b) for n, b in both if users or b == "fuse" or n == "ordinary"]
        metafunc.parametrize("user,backend", some, indirect=["user"])
    elif "user" in metafunc.fixturenames:
        metafunc.parametrize("user", names, indirect=True)
    if marked("transports"):
        metafunc.parametrize("transport", ["", "dev"] if harness.TRANSPORT == "auto" else [""])


def is_in_sample(item, usual):
    """Not each of all: another user, backend or transport than the usual one is tried with the
    first of the case's own parameters, and that transport as an ordinary user."""
    params, ours = item.callspec.params, ("user", "backend", "transport")
    others = [name for name in ours if params.get(name) != usual.get(name)]
    if not others:
        return True
    if any(params[name] != usual.get(name) for name in params if name not in ours):
        return False
    return "transport" not in others or params.get("user") == "ordinary" or bool(item.get_closest_marker("users"))


@pytest.hookimpl(trylast=True)  # behind -k: what is asked for is there
def pytest_collection_modifyitems(config, items):
    if harness.ALL:
        return
    usual, kept, left_out = {}, [], []
    for item in items:
        if item.get_closest_marker("long"):
            left_out.append(item)
            continue
        if hasattr(item, "callspec"):
            first = usual.setdefault((item.path, item.originalname), item.callspec.params)
            if not is_in_sample(item, first):
                left_out.append(item)
                continue
        kept.append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session", autouse=True)
def nothing_stays():
    os.makedirs(harness.WORK, exist_ok=True)
    os.chmod(harness.WORK, 0o755)
    harness.adopt_orphans()
    yield
    left = harness.mounts_below(harness.WORK)
    for directory in left:
        subprocess.run(["fusermount3", "-u", "-z", directory], check=False)
    assert not left, f"left mounted: {left}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    sandbox = getattr(item, "funcargs", {}).get("sandbox")
    if report.failed and sandbox:
        report.sections.append(("daemons", getattr(sandbox, "details", "") or sandbox.describe()))


@pytest.fixture
def user(request):
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    return harness.User(request.param)


@pytest.fixture
def transport():
    """The one of a case that is marked transports, and runs with each."""
    return ""


@pytest.fixture
def backend():
    """What records: of a case that is marked backends, each of them."""
    return "fuse"


@pytest.fixture(scope="session")
def helper():
    running = harness.Helper()
    yield running
    running.close()


@pytest.fixture
def sandbox(request, user, transport, backend):
    box = harness.Sandbox(user, next(numbers))
    box.backend = backend
    if not request.node.get_closest_marker("software"):
        box.write_outside(f"{box.home}/.config/shfs/config.ini", "[record]\nsoftware = no\n")
    if backend != "fuse":
        if os.geteuid() != 0:
            pytest.skip("needs root")
        box.env["SHFS_HELPER"] = request.getfixturevalue("helper").socket
    if transport:
        box.env["SHFS_TRANSPORT"] = transport
    yield box
    try:
        box.close()
    finally:
        if not harness.mounts_below(box.path):
            shutil.rmtree(box.path, ignore_errors=True)


@pytest.fixture
def project(sandbox):
    return sandbox.project


@pytest.fixture
def mount(sandbox):
    return sandbox.mount


@pytest.fixture
def mounted(sandbox):
    return sandbox.mount()


@pytest.fixture
def work(sandbox, mounted, shell):
    lay_out(sandbox)
    return shell()


@pytest.fixture
def twins(sandbox):
    return Twins(sandbox)


@pytest.fixture
def shfs(sandbox):
    return sandbox.shfs


@pytest.fixture
def shell(sandbox):
    return sandbox.shell
