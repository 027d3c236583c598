"""Quotas on the command line."""

from __future__ import annotations


def test_quotas_are_set_shown_obeyed_raised_and_removed(skitter, job):
    pattern = f"{job}-*"
    said = skitter("tenant", "set", pattern, "--max-jobs", "1", "--max-pending", "2K")
    assert said.out.splitlines() == [
        f"{pattern}: 0 of 1 jobs",
        f"{pattern}: 0 of 2,000 URLs waiting",
    ]
    assert skitter("create", f"{job}-1").exit_code == 0
    refused = skitter("create", f"{job}-2")
    assert refused.exit_code == 1
    assert f"`skitter tenant set '{pattern}' --max-jobs N`" in refused.err
    assert "1 of 1 jobs" in skitter("status", f"{job}-1").out
    [row] = [one for one in skitter("tenant", "list", "--json").json if one["jobs"] == pattern]
    assert (row["max_jobs"], row["used"]) == (1, {"max_jobs": 1, "max_pending": 0})

    assert skitter("tenant", "set", pattern, "--max-jobs", "none").exit_code == 0
    assert skitter("create", f"{job}-2").exit_code == 0
    assert "max_jobs" not in skitter("tenant", "set", pattern).out
    assert skitter("tenant", "remove", pattern).exit_code == 0
    assert skitter("tenant", "remove", pattern).exit_code == 2
    assert pattern not in skitter("tenant", "list").out


def test_a_quota_that_is_no_number_is_a_mistake_in_one_sentence(skitter, job):
    for text in ("0", "-1", "many", "1.5"):
        said = skitter("tenant", "set", f"{job}-*", "--max-jobs", text)
        assert (said.exit_code, said.err.count("\n")) == (2, 1), said.err
    assert skitter("tenant", "set", f"{job}-*").exit_code == 2
