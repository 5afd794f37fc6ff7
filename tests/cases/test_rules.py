# SPDX-License-Identifier: MIT
"""The matcher of .shfsignore against git's own, on generated patterns and paths."""

import os
import random
import subprocess

import pytest

import harness

TOOL = os.path.join(os.environ["SHFS_TEST_BUILD"], "tests/unit/rules_tool")

# Names where one pattern is easily taken for another; none that a built-in pattern knows.
NAMES = [b"a", b"b", b"ab", b"aab", b"abb", b"a.b", b"b.a.b", b".a", b"a-b", b"[a]", b"]", b"!a", b"#a"]
NAMES += [b"a b", b"a ", b" ", b"\\a", b"a\\", b"*", b"**", b"a*", b"?", b"A", b"1", b"a\r", b"\xc3\xa4", b"\xff"]
PIECES = [b"a", b"b", b"ab", b".b", b"*", b"**", b"?", b"/", b"/", b"**/", b"/**", b"/**/", b"***", b"!", b"#"]
PIECES += [b"\\", b"\\*", b"\\a", b"\\ ", b" ", b"[ab]", b"[!a]", b"[^b]", b"[a-c]", b"[]a]", b"[a-]", b"[-b]"]
PIECES += [b"[[:alpha:]]", b"[![:upper:]]", b"[[:foo:]]", b"[[:digit:]a]", b"[[:a]", b"[a", b"]", b"[", b"-"]
PIECES += [b"[\\]a]", b"[a-\\c]", b"[b-a]", b"[[]", b"[/]", b"[!/]", b"\xc3", b"\xff", b"\r", b"\t", b"1", b"A"]

EVERY_PATTERN_ALONE = [
    b"a", b"/a", b"a/", b"/a/", b"a/b", b"*/b", b"**/b", b"a/**", b"a/**/b", b"**", b"*", b"/*", b"*/", b"/**",
    b"**/", b"a**", b"a**/b", b"**b", b"*.b", b"*b", b"*.b/", b"!a", b"\\!a", b"#a", b"\\#a", b"a ", b"a\\ ",
    b"a\\  ", b"a b", b"\\", b"a\\", b"/", b"//", b"!", b"!/", b" ", b"\\ ", b"a//b", b"//a", b"a/*/b", b"a/*/**/b",
    b"**/**/b", b"**/a/**", b"*/*", b"*/*/", b"a*b*", b"[[]", b"[]]", b"[]", b"[!]", b"[", b"[a", b"[[:space:]]",
    b"[[:alpha:]b]", b"[[:punct:]]", b"\xef\xbb\xbfa", b"a\r", b"\r", b"\\\\a", b"\\*", b"\\**", b"a**\\/b",
    b"**\\/b", b"/**/b", b"/a**/b", b"a?b", b"?", b"??", b"a/?", b"a[/]b", b"a[!x]b",
]


def tree(root, rng):
    """Makes a small tree; returns its paths, directories with a slash at the end."""
    paths = []

    def fill(prefix, depth):
        for name in rng.sample(NAMES, 9 if depth else len(NAMES)):
            path = prefix + name
            if depth < 3 and rng.random() < 0.4:
                os.mkdir(os.path.join(root, path))
                paths.append(path + b"/")
                fill(path + b"/", depth + 1)
            else:
                open(os.path.join(root, path), "xb").close()
                paths.append(path)

    fill(b"", 0)
    return paths


def git_ignores(root, text, paths):
    with open(os.path.join(root, b".git/info/exclude"), "wb") as f:
        f.write(text)
    run = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "-c", "core.ignoreCase=false", "check-ignore"]
        + ["--no-index", "-z", "--stdin"],
        cwd=root,
        input=b"".join(b"./" + p.rstrip(b"/") + b"\0" for p in paths),
        capture_output=True,
    )
    assert run.returncode in (0, 1), run.stderr
    return {p.removeprefix(b"./") for p in run.stdout.split(b"\0") if p}


def we_ignore(patterns_file, paths):
    text = b"".join(p + b"\0" for p in paths)
    run = subprocess.run([TOOL, patterns_file], input=text, capture_output=True)
    assert run.returncode == 0, run.stderr
    return {p for p in run.stdout.split(b"\0") if p}


@pytest.fixture
def repository(tmp_path):
    root = os.fsencode(tmp_path / "tree")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", "init", "-q", root], check=True, env=env)
    return root


def check(root, text, paths):
    """Both must ignore the same paths; returns how many."""
    theirs = git_ignores(root, text, paths)
    ours = we_ignore(os.path.join(root, b".git/info/exclude"), paths)
    assert ours == theirs, f"patterns {text!r}: only we: {ours - theirs}, only git: {theirs - ours}"
    return len(ours)


def test_each_pattern_alone(repository):
    paths = tree(repository, random.Random(1))
    for pattern in EVERY_PATTERN_ALONE:
        check(repository, pattern + b"\n", paths)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(4 if harness.ALL else 2))
def test_generated_patterns(repository, seed):
    rng = random.Random(seed)
    paths = tree(repository, rng)
    ignored, rounds = 0, 150 if harness.ALL else 50
    for _ in range(rounds):
        lines = [
            rng.choice([b"", b"", b"", b"!", b"/"]) + b"".join(rng.choices(PIECES, k=rng.randint(1, 5)))
            for _ in range(rng.randint(1, 4))
        ]
        end = rng.choice([b"\n", b"\n", b"\r\n", b""])
        ignored += check(repository, rng.choice([b"\n", b"\r\n"]).join(lines) + end, paths)
    assert 6 * rounds < ignored < rounds * len(paths), "the generated patterns say too little"


def test_slow_pattern_is_fast(tmp_path):
    """Patterns that make a backtracking matcher take for ever."""
    patterns = tmp_path / "patterns"
    patterns.write_bytes(b"**/a/" * 200 + b"x\n" + b"a*" * 200 + b"x\n" + b"**/*a*a*a*a*a*a*a*a*a*b/" * 9 + b"x\n")
    paths = [b"a/" * 400 + b"b", b"a" * 250, (b"a" * 250 + b"/") * 15 + b"c"]
    run = subprocess.run([TOOL, patterns], input=b"\0".join(paths), capture_output=True, timeout=20)
    assert (run.returncode, run.stdout) == (0, b"")
