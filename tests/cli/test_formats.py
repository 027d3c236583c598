"""What commands print for programs: lines of progress as JSON, links that log in."""

from __future__ import annotations

import json


def test_with_log_format_json_what_a_process_prints_are_objects(skitter, job, monkeypatch):
    monkeypatch.setenv("SKITTER_LOG_FORMAT", "json")

    done = skitter("load", job, "--to", "rows.jsonl")

    said = [json.loads(line) for line in done.err.splitlines()]
    assert done.exit_code
    assert said[-1]["level"] == "error"
    assert job in said[-1]["text"]
    assert said[-1]["at"] > 1_700_000_000


def test_a_link_to_show_a_job_to_others_has_its_token_where_no_server_logs_it(skitter, job):
    words = ("--scope", "read", "--job", job, "--name", job, "--expires", "7d")
    link = skitter("token", "new", *words, "--link", "https://crawls.example/").out.strip()
    listed = skitter("token", "list", "--json").json
    wrong = skitter("token", "new", "--scope", "read", "--expires", "soon")
    no_link = skitter("token", "new", "--scope", "read", "--link", "crawls.example")

    assert link.startswith("https://crawls.example/#token=skt_")
    [made] = [one for one in listed if one["name"] == job]
    assert round(made["expires_at"] - made["created_at"]) == 7 * 86_400
    assert (no_link.exit_code, no_link.out, "such as https://" in no_link.err) == (2, "", True)
    assert (wrong.exit_code, "an interval such as 6h" in wrong.err) == (2, True)
