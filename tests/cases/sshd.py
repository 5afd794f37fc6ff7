# SPDX-License-Identifier: MIT
"""A real sshd on the loopback for one case, with keys and a client's configuration of its own."""

import os
import shutil
import socket
import subprocess

from harness import wait_until


class Sshd:
    """ssh -F KEYS/client reaches it, whatever the host is called."""

    SFTP = "Subsystem sftp /usr/lib/openssh/sftp-server"

    def __init__(self, sandbox):
        self.sandbox, self.login, self.server = sandbox, sandbox.user.login, None
        self.keys = f"{sandbox.home}/keys"
        sandbox.mkdir(self.keys, 0o700)
        for name in "host", "user":
            sandbox.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.keys}/{name}", cwd="/")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
            if sandbox.user.uid:  # without a password, not locked
                subprocess.run(["usermod", "-p", "*", self.login], check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        with open(f"{self.keys}/host.pub", encoding="ascii") as key:
            sandbox.write_outside(f"{self.keys}/known", f"[127.0.0.1]:{self.port} {key.read()}")
        self.configure()

    def configure(self, *lines, port=None):
        """The client's configuration; what comes first counts."""
        text = "".join(f"{line}\n" for line in ("Host *", *lines))
        text += (f" HostName 127.0.0.1\n Port {port or self.port}\n User {self.login}\n"
                 f" IdentityFile {self.keys}/user\n IdentitiesOnly yes\n StrictHostKeyChecking yes\n HostKeyAlias [127.0.0.1]:{self.port}\n"
                 f" UserKnownHostsFile {self.keys}/known\n LogLevel ERROR\n")  # fmt: skip
        self.sandbox.write_outside(f"{self.keys}/client", text)

    def start(self, *lines, argv=None):
        """With whatever lines of sshd_config. argv: what runs it, as root; None: it runs as the user."""
        text = "\n".join([*lines, self.SFTP, f"Port {self.port}", "ListenAddress 127.0.0.1", f"HostKey {self.keys}/host", "MaxStartups 100",
            f"AuthorizedKeysFile {self.keys}/user.pub", "StrictModes no", "UsePAM no", "PidFile none", ""])  # fmt: skip
        command = [*(argv or []), shutil.which("sshd"), "-D", "-e", "-f", self.sandbox.write_outside(f"{self.keys}/config", text)]
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.server = self.sandbox.popen(command, cwd="/", **silent) if argv is None else subprocess.Popen(command, **silent)
        wait_until(lambda: self.server.poll() is not None or not socket.socket().connect_ex(("127.0.0.1", self.port)), "sshd to listen")
        assert self.server.poll() is None

    def close(self):
        if self.server:
            self.server.terminate()
            self.server.wait(timeout=30)
            self.server = None
