"""The embedded server: a private Valkey, shared by every process that uses a directory.

The life of a server:

1. `hold(directory)` joins that directory's server, or starts it if it is not running; ten processes
   doing so at once start one. Each holds it until its `with` block ends.
2. The last holder to leave shuts it down cleanly. A killed holder leaves too: its hold is a lock,
   which the kernel releases. The server then waits for the next holder.
3. `start(directory)` (`skitter up`) starts it and marks it kept: it runs without holders, and
   restarts with the same options if it dies, until `stop(directory)` (`skitter down`).
4. A server that dies under its holders is restarted when one of them calls `revive(directory)`;
   one that was stopped stays down until somebody starts it.
5. Clients connect to a unix socket that only its user can open: `Redis.from_url(server.url,
   password=server.password)`. There is no TCP port unless `ServerOptions` asks for one.
6. Writes go to an append-only file, at most a second later. After a crash the next holder starts
   from there; leftover sockets and pid files mean nothing (see home.py).

home     Where the server lives: a directory, its files and its locks
process  The server process: spawn it, ask it, mend its files, shut it down
program  Which program to run as the embedded server, and with which configuration
server   Hold, start, stop: who decides how long the server runs
"""

from skitter.embedded.home import EmbeddedServer, Progress, check
from skitter.embedded.process import ServerProcess
from skitter.embedded.program import ServerOptions, server_binary
from skitter.embedded.server import address_of, hold, revive, running, start, stop

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
