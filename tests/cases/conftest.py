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
import zlib

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


REMOTES = "directory", "encrypted directory", "s3", "ssh"  # remotes.KINDS


def ours_of(params):
    """Those of its parameters that no case has of its own."""
    return [n for n in params if n in ("user", "backend", "transport") or n == "kind" and params[n] in REMOTES]


def turn_of(function):
    """A number, always the same for one."""
    return zlib.crc32(function[1].encode())


def is_in_sample(item, usual, chosen):
    """Not each of all: another user, backend, transport or kind of remote than the usual one is tried with the
    first of the case's own parameters, that transport as an ordinary user, and one other backend and remote. Root
    runs one in two of the cases that are not marked with a user: what depends on it is."""
    params = item.callspec.params
    ours = ours_of(params)
    others = [name for name in ours if params[name] != usual.get(name)]
    if not others:
        return True
    if any(params[name] != usual.get(name) for name in params if name not in ours):
        return False
    each_kind = item.get_closest_marker("each_kind")
    if any(params[name] != chosen.get(name, params[name]) for name in others if not (name == "kind" and each_kind)):
        return False
    marked = item.get_closest_marker("users") or item.get_closest_marker("both")
    if others == ["user"] and not marked and turn_of(function_of(item)) % 2:
        return False
    return "transport" not in others or params.get("user") == "ordinary" or bool(item.get_closest_marker("users"))


def function_of(item):
    return item.path, item.originalname


def choose_others(items, usual):
    """Of each function that runs with several backends or kinds of remotes, which one it has besides the usual one:
    another one for another function, always the same for one. {function: {name: value}}"""
    found = {}
    for item in items:
        params = item.callspec.params
        for name in {"backend", "kind"}.intersection(ours_of(params)):
            if params[name] != usual[function_of(item)].get(name):
                found.setdefault(function_of(item), {}).setdefault(name, set()).add(params[name])
    return {f: {name: sorted(values)[turn_of(f) % len(values)] for name, values in names.items()} for f, names in found.items()}


@pytest.hookimpl(trylast=True)  # behind -k: what is asked for is there
def pytest_collection_modifyitems(config, items):
    if harness.ALL:
        return
    short = [item for item in items if not item.get_closest_marker("long")]
    with_params = [item for item in short if hasattr(item, "callspec")]
    usual = {}
    for item in with_params:
        usual.setdefault(function_of(item), item.callspec.params)
    chosen = choose_others(with_params, usual)
    in_sample = lambda item: is_in_sample(item, usual[function_of(item)], chosen.get(function_of(item), {}))
    kept = [item for item in short if not hasattr(item, "callspec") or in_sample(item)]
    left_out = list(set(items) - set(kept))
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
