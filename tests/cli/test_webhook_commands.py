"""Webhooks on the command line."""

from __future__ import annotations

import re


def test_webhooks_on_the_command_line(skitter, job):
    skitter("create", job)
    refused = skitter("webhook", "add", job, "http://10.0.0.1/")
    added = skitter("webhook", "add", job, "http://10.0.0.1/", "--allow-private", "--on", "finish")
    [row] = skitter("webhook", "list", job, "--json").json

    assert "a private address" in refused.err
    secret, hint = added.out.strip().splitlines()
    assert re.search(r"shown this once: whsec_\S{43}$", secret)
    assert hint.endswith("SKITTER_ALLOW_HOSTS=10.0.0.1:80")
    assert (row["url"], row["on"], row["secret"]) == ("http://10.0.0.1/", ["finish"], "")
    assert skitter("webhook", "remove", job, row["id"]).exit_code == 0
    assert skitter("webhook", "remove", job, row["id"]).exit_code == 2
    assert "no webhooks" in skitter("webhook", "list", job).out


def test_a_list_of_webhooks_does_not_give_away_their_addresses(skitter, job):
    skitter("create", job)
    word = "s3cr3t" * 5
    for url in (f"https://hooks.example/T0/{word}", f"https://chat.example/a?key={word}"):
        skitter("webhook", "add", job, url, "--on", "finish")

    people, programs = skitter("webhook", "list", job), skitter("webhook", "list", job, "--json")

    assert word not in people.out + programs.out
    shown = sorted(row["url"] for row in programs.json)
    assert shown == ["https://chat.example/a?key=***", "https://hooks.example/T0/***"]
    assert all(url in people.out for url in shown)
