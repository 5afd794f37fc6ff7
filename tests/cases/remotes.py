# SPDX-License-Identifier: MIT
"""Kinds of remotes, as tests start and damage them."""

import hashlib
import os
import shutil
import uuid
import xml.etree.ElementTree as xml

import pytest

import s3

from nacl import bindings

from sshd import Sshd


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


class S3(Directory):
    """A prefix of its own in a bucket."""

    def __init__(self, sandbox):
        if not shutil.which("radosgw"):
            pytest.skip("no radosgw")
        self.sandbox, self.host, self.prefix = sandbox, s3.server(), f"tests/{uuid.uuid4().hex}"
        self.client = s3.Client(self.host)
        self.url = self.url_of(self.host)
        sandbox.env.update(AWS_ACCESS_KEY_ID=s3.KEY, AWS_SECRET_ACCESS_KEY=s3.SECRET, SHFS_S3_WAIT_MS="1")

    def url_of(self, host, prefix=None):
        return f"s3://{s3.BUCKET}/{prefix or self.prefix}?endpoint=http://{host}"

    def path(self, name):
        return f"/{s3.BUCKET}/{self.prefix}/{name}"

    def names(self):
        found, after = [], ""
        while True:
            reply = self.client.ask("GET", f"/{s3.BUCKET}", {"list-type": "2", "prefix": f"{self.prefix}/", "start-after": after})
            assert reply.status == 200, reply.text
            keys = [entry.text for entry in xml.fromstring(reply.text).iter("{http://s3.amazonaws.com/doc/2006-03-01/}Key")]
            found += keys
            if b"<IsTruncated>true" not in reply.text:
                return sorted(key.removeprefix(f"{self.prefix}/") for key in found)
            after = keys[-1]

    def read(self, name):
        reply = self.client.ask("GET", self.path(name))
        assert reply.status == 200, (name, reply.status)
        return reply.text

    def write(self, name, data):
        assert self.client.ask("PUT", self.path(name), body=data).status == 200

    def remove(self, name):
        assert self.client.ask("DELETE", self.path(name)).status == 204

    def clear(self):
        for name in self.names():
            self.remove(name)

    def close(self):
        self.clear()


class Encrypted:
    """A remote of another kind, with encryption. What is read and written here is what shfs sees: it is put into
    words anew, by docs/remotes.md, and the judge is another program than libsodium's C."""

    KEY = bytes(range(32))
    FIRST = b"shfs remote 1 encrypted 1\n"

    def __init__(self, inner):
        self.inner, self.sandbox, self.url = inner, inner.sandbox, inner.url
        self.sandbox.env["SHFS_REMOTE_KEY"] = key_text(self.KEY)

    def close(self):
        del self.sandbox.env["SHFS_REMOTE_KEY"]
        self.inner.close()

    # --- keys ---

    def own_key(self):
        label = self.inner.read("shfs-remote")
        assert label.startswith(self.FIRST + b"id ")
        return remote_key(self.KEY, bytes.fromhex(label.split()[6].decode()))

    def key_for(self, name):
        return subkey(self.own_key(), 2 if name.startswith("heads/") else 1)

    # --- names and bytes ---

    def names(self):
        return self.inner.names()

    def read(self, name):
        data = self.inner.read(name)
        if name == "shfs-remote":
            return data
        return bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(data[24:], name.encode(), data[:24], self.key_for(name))

    def write(self, name, data):
        if data == b"shfs remote 1\n" or "/" in name and "shfs-remote" not in self.names():
            self.make()
        if name == "shfs-remote" and data != b"shfs remote 1\n":
            self.inner.write(name, data)
        elif "/" in name:
            nonce = os.urandom(24)
            sealed = bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(data, name.encode(), nonce, self.key_for(name))
            self.inner.write(name, nonce + sealed)
        elif name != "shfs-remote":
            self.inner.write(name, data)

    def make(self):
        """The label, unless it is there."""
        if "shfs-remote" not in self.names() or not self.inner.read("shfs-remote").startswith(self.FIRST):
            self.inner.write("shfs-remote", label_of(self.KEY, os.urandom(16)))

    def remove(self, name):
        self.inner.remove(name)

    def clear(self):
        self.inner.clear()

    def files(self):
        return {name: self.read(name) for name in self.names()}

    def blobs(self):
        return self.inner.blobs()

    def flip(self, name, at=None):
        self.inner.flip(name, at)


def key_text(key):
    return f"shfs-key-1:{key.hex('-', 4)}"


def remote_key(key, number):
    """The key of one remote."""
    return hashlib.blake2b(number, key=key, digest_size=32).digest()


def subkey(key, purpose):
    """crypto_kdf_derive_from_key."""
    return hashlib.blake2b(b"", key=key, digest_size=32, salt=purpose.to_bytes(16, "little"), person=b"shfs-rem").digest()


def label_of(key, number):
    text = Encrypted.FIRST + b"id %s\n" % number.hex().encode()
    check = hashlib.blake2b(text, key=subkey(remote_key(key, number), 4), digest_size=32).hexdigest()
    return text + b"check %s\n" % check.encode()


class Ssh(Sshd, Directory):
    """A directory that a real sshd shows, which runs as the user, with whatever lines of sshd_config."""

    def __init__(self, sandbox, *lines):
        Directory.__init__(self, sandbox)
        Sshd.__init__(self, sandbox)
        sandbox.env.update(SHFS_SSH_COMMAND=f"ssh -F {self.keys}/client", SHFS_SSH_WAIT_MS="20")
        self.url = f"ssh://there{self.path}"
        sandbox.allow_exit(255)  # of a child of sshd whose client is gone
        self.start(*lines)


KINDS = {"directory": Directory, "s3": S3, "encrypted directory": lambda sandbox: Encrypted(Directory(sandbox)), "ssh": Ssh}
for missing in [name for name in ("ssh", "sshd") if not shutil.which(name)]:
    KINDS.pop("ssh", missing)
