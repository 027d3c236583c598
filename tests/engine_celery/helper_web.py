"""A web application that hands pages over and answers at once."""

from __future__ import annotations

from fastapi import FastAPI

from skitter.celery import scrape, status

api = FastAPI()


@api.post("/pages")
def hand_over(url: str, spider: str = "", browser: bool = False) -> dict[str, str]:
    return {"id": scrape.delay(url, spider=spider, browser=browser).id}


@api.get("/pages/{id}")
def look(id: str) -> dict[str, str]:
    return {"state": status(id).state}
