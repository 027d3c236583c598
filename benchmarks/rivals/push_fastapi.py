"""Run by benchmarks in FastAPI's own environment. Not a module of Skitter.

The same endpoint as most would write it: a pydantic model, a bearer token, a set of known URLs and
a list of URLs to fetch, in one redis-py pipeline. Takes one JSON argument {socket}, prints where it
listens, and serves until it is stopped.
"""

import hashlib
import hmac
import json
import socket
import sys

import redis.asyncio
import uvicorn
from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel

TASK = json.loads(sys.argv[1])
TOKENS = "skitter:tokens"
client = redis.asyncio.Redis(unix_socket_path=TASK["socket"])
app = FastAPI()
known = {}


class Push(BaseModel):
    urls: list[str]
    priority: int = 0


class Pushed(BaseModel):
    new: int
    seen: int


async def check(authorization: str) -> None:
    """By the hash of the token; the known hashes are read once."""
    if not known:
        stored = (json.loads(one) for one in await client.hvals(TOKENS))
        known.update({one["hash"]: one for one in stored})
    token = authorization.removeprefix("Bearer ")
    found = hashlib.sha256(token.encode()).hexdigest()
    if not any(hmac.compare_digest(found, one) for one in known):
        raise HTTPException(401)


@app.post("/api/jobs/{job}/urls", status_code=202)
async def push(job: str, body: Push, authorization: str = Header()) -> Pushed:
    await check(authorization)
    prints = [hashlib.sha1(url.encode()).digest() for url in body.urls]
    pipe = client.pipeline(transaction=False)
    for one in prints:
        pipe.sadd(f"{job}:seen", one)
    is_new = await pipe.execute()
    fresh = [url for url, new in zip(body.urls, is_new, strict=True) if new]
    if fresh:
        await client.lpush(f"{job}:queue", *fresh)
    return Pushed(new=len(fresh), seen=len(prints) - len(fresh))


if __name__ == "__main__":
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(app, http="httptools", loop="uvloop", access_log=False)
    uvicorn.Server(config).run([listener])
