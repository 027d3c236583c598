"""The app of a team that had Celery before, with a queue and a reducer of its own."""

from __future__ import annotations

import json
import os

from celery import Celery

from skitter.celery import register

app = Celery("team", broker=os.environ["TEAM_BROKER"], backend=os.environ["TEAM_BACKEND"])
app.conf.task_default_queue = "team"
app.conf.update(json.loads(os.environ.get("TEAM_CONF", "{}")))
register(app)


@app.task
def count_words(records):
    return sum(len(one["items"][0]["text"].split()) for one in records if one["ok"])
