# SPDX-License-Identifier: MIT
"""The edits of tests/broken find their place by a function and a few words, also where code has moved."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "broken"))
import edit  # noqa: E402

BREAK = """Fails: test_unit.py::test_unit[a:b]

In: store/a.c, settle
Replace: !r && fsync(fd)
With: !r

In: store/a.c
Replace: MAX = 10
With:
"""
SOURCE = """enum { MAX = 10, MAX = 100 };

static int settled(int fd, int r)
{
	return !r && fsync(fd);
}

/* Tells settle() apart. */
static int settle(int fd,
                  int r)
{
	if (settled(fd, r) || (!r &&
	                       fsync( fd )))
		return 1;
	return 0;
}
"""
BROKEN = SOURCE.replace("!r &&\n\t                       fsync( fd )", "!r").replace("MAX = 10,", ",")


def tree_of(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return edit.Tree(tmp_path)


def apply(tree, text=BREAK):
    for one in edit.parse(text)[1]:
        tree.apply(one)


@pytest.mark.parametrize("path", ["store/a.c", "query/b.c"])
def test_finds_its_place(tmp_path, path):
    """In the file that it names, or where the code has moved to; what is written is taken back."""
    tree = tree_of(tmp_path, {path: SOURCE, "store/c.h": SOURCE, "store/d.c": "int settled(void)\n{\n}\n"})
    apply(tree)
    assert tree.changed() == [path] and (tmp_path / path).read_text() == SOURCE
    tree.write()
    assert (tmp_path / path).read_text() == BROKEN
    tree.revert()
    assert (tmp_path / path).read_text() == SOURCE and not tree.changed()


@pytest.mark.parametrize("files, said", [
    ({"store/a.c": SOURCE.replace("settle(int", "finish(int")}, "there is no settle; they stand in store/a.c:5, store/a.c:12"),
    ({"store/a.c": SOURCE.replace("fsync( fd )", "0")}, "settle has them 0 times; they stand in store/a.c:5"),
    ({"store/a.c": SOURCE.replace("return 1;", "return !r && fsync(fd);")}, "settle has them 2 times"),
    ({"store/b.c": SOURCE, "query/b.c": SOURCE}, "settle has them 2 times"),
    ({"store/a.c": SOURCE.replace("MAX = 10,", "MAX = 1,")}, "store/a.c has them 0 times; they stand in no file"),
])
def test_tells_what_it_misses(tmp_path, files, said):
    with pytest.raises(edit.Misplaced, match=said.replace("(", r"\(")):
        apply(tree_of(tmp_path, files))


@pytest.mark.parametrize("text", ["", BREAK.replace("Fails: ", ""), BREAK.replace("With: !r\n", ""), BREAK + "In: x\n",
                                  "Fails: a.py::b\n", BREAK.replace("\n\nIn", "\nIn")])
def test_wants_its_form(text):
    with pytest.raises(edit.Misplaced):
        edit.parse(text)
