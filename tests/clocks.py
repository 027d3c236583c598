"""Clocks: processes whose clock is wrong, by libfaketime (their offset is in a file), and the
kernel's, by which requests arrive."""

from __future__ import annotations

import shlex
import socket
import struct
import time
from pathlib import Path

from needs import need
from skitter.embedded import server_binary


def faked_clock(offset: Path, *, monotonic: bool = False, cache_s: int = 0) -> dict[str, str]:
    """Their environment. They look at the file so often; 0: whenever they ask for the time."""
    set_clock(offset, "+0")
    looks = {"FAKETIME_CACHE_DURATION": str(cache_s)} if cache_s else {"FAKETIME_NO_CACHE": "1"}
    return looks | {
        "LD_PRELOAD": need("libfaketime"),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_DONT_FAKE_MONOTONIC": str(int(not monotonic)),
    }


def server_with_a_faked_clock(offset: Path) -> Path:
    """A program for SKITTER_SERVER. Only the server itself has that clock: a Python that waits for
    a process sometimes fails with EINVAL under libfaketime."""
    clock = (f"{name}={shlex.quote(value)}" for name, value in faked_clock(offset).items())
    program = offset.with_name("server")
    program.write_text(f'#!/bin/sh\nexec env {" ".join(clock)} {server_binary()} "$@"\n')
    program.chmod(0o700)
    return program


def set_clock(offset: Path, to: str) -> None:
    """In one step: nobody reads a file that is empty."""
    draft = offset.with_suffix(".new")
    draft.write_text(f"{to}\n")
    draft.replace(offset)


#: Where the kernel says how many ms ago data last came: `tcpi_last_data_recv` in linux/tcp.h.
TCP_INFO_LAST_DATA_RECV = struct.Struct("52xI")


def arrived_at(connection: socket.socket) -> float:
    """When the request came, by the kernel: this process may have been too busy to look."""
    size = TCP_INFO_LAST_DATA_RECV.size
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, size)
    (ago_ms,) = TCP_INFO_LAST_DATA_RECV.unpack(info)
    return time.monotonic() - float(ago_ms) / 1000
