"""Checks that every URL of a job is accounted for, and explains where one is and why.

auditor     The audit: accounts for every URL, and for every key
politeness  How politely hosts were crawled, from the record of recent requests (lua/lib/trips.lua)
rules       The invariants of a job: each rule takes facts of one moment and says what is wrong
why         Why a URL is where it is: what the frontier knows about one page
"""
