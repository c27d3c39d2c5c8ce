"""Finds the user of this machine at the other end of a TCP connection. Linux only."""

import contextlib
import errno
import socket
import struct
import sys
from pathlib import Path
from typing import Final

IS_SUPPORTED: Final = sys.platform == "linux"

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_ANY_COOKIE: Final = b"\xff" * 8
_HEADER: Final = struct.Struct("=IHHII")
"""Netlink header: length, type, flags, sequence, port."""
_DIAG_REQUEST: Final = struct.Struct("=BBBBI")
"""Family, protocol, extensions, padding, states."""
_DIAG_REPLY: Final = struct.Struct("=BBBB48s3III")
"""Family, state, timer, retransmits, socket, expires and two queues, user, inode."""
_LISTENING: Final = 10
_NOT_FOUND: Final = frozenset({errno.ENOENT, errno.ESTALE})
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


class PeerUsers:
    """Asks the kernel about one socket by its addresses; the cost does not grow with the number of sockets."""

    def __init__(self) -> None:
        self._netlink: socket.socket | None = None
        with contextlib.suppress(OSError):
            self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _SOCK_DIAG)
        self._sequence = 0

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()

    def uid_of(self, accepted: socket.socket) -> int | None:
        """The user at the other end, or None when that end is closed or not on this machine."""
        try:
            peer, local = accepted.getpeername(), accepted.getsockname()
        except OSError:
            return None
        if self._netlink is not None:
            try:
                return self._query(self._netlink, accepted.family, peer, local)
            except OSError:
                # This kernel or container has no sock_diag; the tables give the same answer, more slowly.
                self._netlink.close()
                self._netlink = None
        return find_in_tables(accepted.family, peer, local)

    def _query(
        self, netlink: socket.socket, family: socket.AddressFamily, peer: tuple[str, int], local: tuple[str, int]
    ) -> int | None:
        self._sequence += 1
        # The request describes the peer's socket, so the peer's address comes first.
        ports = struct.pack("!HH", peer[1], local[1])
        addresses = b"".join(socket.inet_pton(family, end[0]).ljust(16, b"\0") for end in (peer, local))
        wanted = ports + addresses + struct.pack("=I", 0) + _ANY_COOKIE
        body = _DIAG_REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + wanted
        netlink.send(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, self._sequence, 0) + body)
        while True:
            answer = netlink.recv(4096, socket.MSG_DONTWAIT)
            _, kind, _, sequence, _ = _HEADER.unpack_from(answer)
            if sequence == self._sequence:
                break
        if kind != _BY_FAMILY:
            (error,) = struct.unpack_from("=i", answer, _HEADER.size)
            if -error in _NOT_FOUND:
                return None
            raise OSError(-error, "sock_diag")
        _, state, _, _, found, *_, user, inode = _DIAG_REPLY.unpack_from(answer, _HEADER.size)
        # Without an inode the process has closed its end, and the kernel reports root as the user.
        is_peer = found[: len(ports)] == ports and state != _LISTENING and inode != 0
        return int(user) if is_peer else None


def find_in_tables(family: socket.AddressFamily, peer: tuple[str, int], local: tuple[str, int]) -> int | None:
    """The same answer from /proc, which means reading every TCP connection of the machine."""
    for table in _TABLES:
        wanted = _in_hex(family, table.name, peer), _in_hex(family, table.name, local)
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if (fields[1], fields[2]) == wanted and fields[9] != "0":
                return int(fields[7])
    return None


def _in_hex(family: socket.AddressFamily, table: str, end: tuple[str, int]) -> str:
    packed = socket.inet_pton(family, end[0])
    if table == "tcp6" and family == socket.AF_INET:
        packed = b"\0" * 10 + b"\xff\xff" + packed
    # The kernel prints words as numbers, so their bytes are in the machine's order.
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{end[1]:04X}"
