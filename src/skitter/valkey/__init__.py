"""The embedded server: a real Valkey of our own, shared by every process that uses a directory.

The life of a server:

1. `hold(directory)` joins the server of that directory, or starts it if nobody has; ten processes
   that do so at once start one. Each of them holds it until its `with` block ends.
2. The last holder to leave shuts it down cleanly. A holder that is killed leaves too: its hold is
   a lock, and the kernel frees it. The server then waits for the next holder.
3. `start(directory)` (`skitter up`) starts it and marks it kept: it runs without holders, and
   comes back with the same options should it die, until `stop(directory)` (`skitter down`).
4. A server that dies under its holders comes back when one of them calls `revive(directory)`;
   one that somebody stopped stays down until somebody starts it.
5. Clients reach it by a unix socket that only its user can open: `Redis.from_url(server.url,
   password=server.password)`. There is no TCP port unless `ServerOptions` asks for one.
6. What was written is in an append-only file, at most a second behind. After a crash the next
   holder starts from there; leftover sockets and pid files mean nothing (see locks.py).
"""

from skitter.valkey.binary import server_binary
from skitter.valkey.config import ServerOptions
from skitter.valkey.home import EmbeddedServer, check
from skitter.valkey.process import ServerProcess
from skitter.valkey.server import address_of, hold, revive, running, start, stop
from skitter.valkey.waiting import Progress

__all__ = [
    "EmbeddedServer",
    "Progress",
    "ServerOptions",
    "ServerProcess",
    "address_of",
    "check",
    "hold",
    "revive",
    "running",
    "server_binary",
    "start",
    "stop",
]
