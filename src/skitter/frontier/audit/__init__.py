"""Checks that every URL of a job is accounted for, and explains where one is and why.

auditor     The audit: accounts for every URL, and for every key
politeness  How politely hosts were crawled, from the record of recent requests (lua/lib/trips.lua)
rules       Invariants of a job, and the result of checking them
why         Why a URL is where it is
"""
