# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Servers that several peers read from: nginx, nfs-ganesha, sshd. They use files of their own."""

import contextlib
import getpass
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers.node import Node
from benchmarks.peers.peer import Program
from benchmarks.processes import Background, BenchmarkError, command_line

NGINX = Program("nginx", "nginx-light")
GANESHA = Program("ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs")
SSHD = Program("sshd", "openssh-server")
SSH_KEYGEN = Program("ssh-keygen", "openssh-client")
SSH_CIPHER = "aes128-gcm@openssh.com"  # the cheapest where processors have AES instructions


def find(program: Program) -> str:
    found = program.find()
    if found is None:
        raise BenchmarkError(f"{program.name} is missing: apt-get install {program.package}")
    return found


def free_port() -> int:
    """A port that nothing listens on here; nodes with networks of their own have all free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def nginx(node: Node, root: Path, scratch: Path) -> Iterator[str]:
    """Serves a folder; gives the URL of its root.

    sendfile from the page cache, connections that live on. Clients of S3 take it for a store whose
    buckets are folders: they only send GET, HEAD and Range for paths, and ask nobody for names.
    """
    port = free_port()
    pid_file = scratch / "nginx.pid"
    user = "user root;" if os.geteuid() == 0 else ""
    config = scratch / "nginx.conf"
    config.write_text(f"""
{user}
daemon off;
worker_processes {os.cpu_count()};
pid {pid_file};
error_log {scratch}/nginx.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  sendfile on;
  sendfile_max_chunk 4m;
  tcp_nopush on;
  keepalive_requests 1000000000;
  open_file_cache max=100000 inactive=600s;
  open_file_cache_valid 600s;
  default_type application/octet-stream;
  client_body_temp_path {scratch}/nginx-body;
  proxy_temp_path {scratch}/nginx-proxy;
  fastcgi_temp_path {scratch}/nginx-fastcgi;
  uwsgi_temp_path {scratch}/nginx-uwsgi;
  scgi_temp_path {scratch}/nginx-scgi;
  server {{
    listen {node.address}:{port} backlog=4096;
    root {root};
  }}
}}
""")
    command = command_line(find(NGINX), "-e", scratch / "nginx.log", "-p", scratch, "-c", config)
    with Background(command, scratch / "nginx.out", popen=node.popen) as server:
        server.wait_until(lambda: pid_file.exists() and pid_file.read_text().strip() != "")
        yield f"http://{node.address}:{port}"


@contextlib.contextmanager
def nfs(node: Node, root: Path, scratch: Path) -> Iterator[str]:
    """Exports a folder by NFSv4.0; gives the URL for nfs_mount."""
    port = free_port()
    log = scratch / "ganesha.log"
    recovery = scratch / "ganesha-recovery"
    recovery.mkdir(exist_ok=True)
    config = scratch / "ganesha.conf"
    config.write_text(f"""
NFS_CORE_PARAM {{
  Protocols = 4;
  NFS_Port = {port};
  Bind_addr = {node.address};
  Enable_NLM = false;
  Enable_RQUOTA = false;
  Enable_UDP = false;
}}
NFSV4 {{
  Graceless = true;
  Minor_Versions = 0;
  RecoveryRoot = {recovery};
}}
EXPORT {{
  Export_Id = 1;
  Path = {root.resolve()};
  Pseudo = /data;
  Access_Type = RO;
  Squash = No_Root_Squash;
  SecType = sys;
  Protocols = 4;
  Transports = TCP;
  FSAL {{ Name = VFS; }}
}}
""")
    command = command_line(
        find(GANESHA), "-F", "-f", config, "-L", log, "-p", scratch / "ganesha.pid"
    )

    def is_up() -> bool:
        return log.exists() and "NFS SERVER INITIALIZED" in log.read_text(errors="replace")

    with Background(
        [*command, "-N", "NIV_EVENT"], scratch / "ganesha.out", popen=node.popen
    ) as server:
        server.wait_until(is_up)
        yield f"nfs://{node.address}/data?version=4&nfsport={port}"


@contextlib.contextmanager
def sshd(node: Node, scratch: Path) -> Iterator[tuple[str, int, Path]]:
    """Lets this user in by a key made for the occasion; gives user@address, port and key."""
    port = free_port()
    for name in ("host-key", "user-key"):
        if not (scratch / name).exists():
            subprocess.run(
                [find(SSH_KEYGEN), "-q", "-t", "ed25519", "-N", "", "-f", str(scratch / name)],
                check=True,
            )
    (scratch / "authorized_keys").write_text((scratch / "user-key.pub").read_text())
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists on it
    config = scratch / "sshd.conf"
    config.write_text(f"""
Port {port}
ListenAddress {node.address}
HostKey {scratch}/host-key
AuthorizedKeysFile {scratch}/authorized_keys
PidFile {scratch}/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
Ciphers {SSH_CIPHER}
Subsystem sftp internal-sftp
""")
    with Background(
        command_line(find(SSHD), "-D", "-e", "-f", config),
        scratch / "sshd.log",
        popen=node.popen,
    ) as server:
        server.wait_for_output("Server listening on")
        yield f"{getpass.getuser()}@{node.address}", port, scratch / "user-key"
