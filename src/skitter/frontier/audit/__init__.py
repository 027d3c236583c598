"""Checks that every URL of a job is accounted for, and explains where one is and why."""
