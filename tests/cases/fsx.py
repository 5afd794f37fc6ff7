# SPDX-License-Identifier: MIT
"""Random operations on one file, by two names and several descriptors, against a model in memory
and against the file beneath: fsx.py SEED OPERATIONS DIRECTORY [FD OF THE DIRECTORY BENEATH]."""

import ctypes
import errno
import mmap
import os
import random
import sys

LIMIT = 300_000
KEEP, PUNCH, ZERO = 1, 2, 16
libc = ctypes.CDLL(None, use_errno=True)


class Tester:
    def __init__(self, seed, where, beneath):
        self.rng = random.Random(seed)
        self.names = [os.path.join(where, "file"), os.path.join(where, "other name")]
        self.beneath, self.log, self.model = beneath, [], bytearray()
        os.close(os.open(self.names[0], os.O_CREAT | os.O_EXCL | os.O_RDWR))
        os.link(*self.names)
        self.fds = [self.open(), self.open()]
        self.direct = os.open(self.names[0], os.O_RDWR | os.O_DIRECT)
        self.other = os.open(os.path.join(where, "source"), os.O_CREAT | os.O_RDWR)
        self.source = self.rng.randbytes(LIMIT)
        os.write(self.other, self.source)
        self.mapping = None

    def open(self, flags=0):
        return os.open(self.rng.choice(self.names), os.O_RDWR | flags)

    def span(self, limit=LIMIT):
        """Offset and length: often at the borders of pages, often small."""
        at = self.rng.randrange(limit)
        if self.rng.random() < 0.3:
            at &= ~4095
        n = self.rng.choice((1, 511, 4096, 5000, 65536, 150000))
        return at, min(self.rng.randint(1, n), LIMIT - at)

    def grow(self, size):
        self.model.extend(bytes(max(0, size - len(self.model))))

    def check(self, what, got, expected):
        if got != expected:
            at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
            last = "\n".join(map(str, self.log[-30:]))
            sys.exit(f"{last}\n{what}: {len(got)} bytes for {len(expected)}, the first other at {at}")

    # --- operations ---

    def do_read(self, fd):
        at, n = self.span()
        self.check("read", os.pread(fd, n, at), bytes(self.model[at : at + n]))

    def do_write(self, fd):
        at, n = self.span()
        data = self.rng.randbytes(n)
        self.grow(at + n)
        self.model[at : at + n] = data
        assert os.pwrite(fd, data, at) == n

    def do_append(self, fd):
        data = self.rng.randbytes(self.rng.randrange(3000))
        if len(self.model) + len(data) > LIMIT:
            return
        appending = self.open(os.O_APPEND)
        assert os.write(appending, data) == len(data)
        os.close(appending)
        self.model += data

    def do_direct(self, fd):
        at = self.rng.randrange(LIMIT // 4096) * 4096
        page = mmap.mmap(-1, 4096 * self.rng.randint(1, 4))
        if self.rng.random() < 0.5:
            n = os.preadv(self.direct, [page], at)
            self.check("direct read", page[:n], bytes(self.model[at : at + len(page)]))
        elif at + len(page) <= LIMIT:
            page[:] = self.rng.randbytes(len(page))
            assert os.pwritev(self.direct, [page], at) == len(page)
            self.grow(at + len(page))
            self.model[at : at + len(page)] = page[:]

    def do_truncate(self, fd):
        size = self.rng.randrange(LIMIT)
        if self.rng.random() < 0.5:
            os.ftruncate(fd, size)
        else:
            os.truncate(self.rng.choice(self.names), size)
        self.grow(size)
        del self.model[size:]

    def do_fallocate(self, fd):
        at, n = self.span()
        mode = self.rng.choice((0, KEEP, PUNCH | KEEP, ZERO, ZERO | KEEP))
        if libc.fallocate(fd, mode, ctypes.c_long(at), ctypes.c_long(n)):
            raise OSError(ctypes.get_errno(), f"fallocate {mode}")
        if not mode & KEEP:
            self.grow(at + n)
        if mode & (PUNCH | ZERO):
            end = min(at + n, len(self.model))
            self.model[at:end] = bytes(max(0, end - at))

    def do_map_read(self, fd):
        if self.model:
            with mmap.mmap(fd, len(self.model), prot=mmap.PROT_READ) as m:
                self.check("mapping", m[:], bytes(self.model))

    def do_map_write(self, fd):
        if not self.model:
            return
        at, n = self.span(len(self.model))
        data = self.rng.randbytes(min(n, len(self.model) - at))
        m = mmap.mmap(fd, len(self.model))
        m[at : at + len(data)] = data
        self.model[at : at + len(data)] = data
        if self.rng.random() < 0.5:
            m.flush()
        if self.rng.random() < 0.3:
            self.mapping = m  # stays, and is read below
        else:
            m.close()

    def do_old_mapping(self, fd):
        if self.mapping:
            n = min(len(self.mapping), len(self.model))
            self.check("mapping kept", self.mapping[:n], bytes(self.model[:n]))

    def do_copy(self, fd):
        to, n = self.span()
        at = self.rng.randrange(LIMIT - n + 1)
        n = os.copy_file_range(self.other, fd, n, at, to)
        self.grow(to + n)
        self.model[to : to + n] = self.source[at : at + n]

    def do_copy_within(self, fd):
        at, n = self.span()
        to = self.rng.randrange(LIMIT - n + 1)
        data = bytes(self.model[at : at + n])
        if not data or abs(at - to) < n:
            return
        n = os.copy_file_range(fd, self.rng.choice(self.fds), n, at, to)
        self.grow(to + n)
        self.model[to : to + n] = data[:n]

    def do_reopen(self, fd):
        self.fds.remove(fd)
        os.close(fd)
        self.fds.append(self.open(os.O_TRUNC if self.rng.random() < 0.1 else 0))
        if os.fstat(self.fds[-1]).st_size == 0:
            self.model.clear()

    def do_rename(self, fd):
        i = self.rng.randrange(2)
        new = self.names[i] + "'" if len(self.names[i]) < 200 else self.names[i].rstrip("'")
        os.rename(self.names[i], new)
        self.names[i] = new

    def do_sync(self, fd):
        os.fsync(fd)
        if self.mapping and self.rng.random() < 0.5:
            self.mapping.close()
            self.mapping = None

    def verify(self):
        assert os.fstat(self.fds[0]).st_size == os.stat(self.names[1]).st_size == len(self.model), self.log[-20:]
        with open(self.rng.choice(self.names), "rb") as f:
            self.check("the file", f.read(), bytes(self.model))
        if self.beneath is None:
            return
        if self.mapping:
            self.mapping.flush()
        fd = os.open(os.path.basename(self.names[0]), os.O_RDONLY, dir_fd=self.beneath)
        with open(fd, "rb") as f:
            self.check("the file beneath", f.read(), bytes(self.model))

    def run(self, operations):
        methods = sorted(m for m in dir(self) if m.startswith("do_"))
        for i in range(operations):
            name = self.rng.choice(methods)
            self.log.append((i, name, len(self.model)))
            getattr(self, name)(self.rng.choice(self.fds))
            if i % 20 == 0:
                self.verify()
        self.verify()


def main(seed, operations, where, beneath=None):
    tester = Tester(int(seed), where, int(beneath) if beneath else None)
    try:
        tester.run(int(operations))
    except OSError as error:
        name = errno.errorcode.get(error.errno)
        sys.exit(f"seed {seed}: {name} {error}\n" + "\n".join(map(str, tester.log[-20:])))
    except SystemExit as failure:
        sys.exit(f"seed {seed}:\n{failure}")


main(*sys.argv[1:])
