# SPDX-License-Identifier: MIT
"""Kinds of remotes, as tests start and damage them."""

import os
import shutil


class Directory:
    """A directory."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.path = f"{sandbox.home}/remote"
        self.url = self.path

    def names(self):
        return sorted(
            os.path.relpath(os.path.join(top, name), self.path) for top, _, names in os.walk(self.path) for name in names
        )

    def read(self, name):
        with open(f"{self.path}/{name}", "rb") as file:
            return file.read()

    def write(self, name, data):
        path = f"{self.path}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        self.sandbox.user.own(path)

    def remove(self, name):
        os.unlink(f"{self.path}/{name}")

    def clear(self):
        shutil.rmtree(self.path)

    def close(self):
        pass

    # --- for all kinds ---

    def files(self):
        return {name: self.read(name) for name in self.names()}

    def blobs(self):
        return [name for name in self.names() if name.startswith("data/")]

    def flip(self, name, at=None):
        data = bytearray(self.read(name))
        data[len(data) // 2 if at is None else at] ^= 0x10
        self.write(name, bytes(data))


KINDS = {"directory": Directory}
