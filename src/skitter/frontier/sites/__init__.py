"""What the fleet knows about sites: hosts, sessions, routes, pages.

hosts      The hosts of a job: their delays, clocks they share, and when the slowest will be done
learned    What the fleet has learned about pages: outcomes, robots.txt, rendering, traps
sessions   Sessions of sites, and routes to them: what the fleet shares
snapshots  Facts about one moment, read by audit.lua and audit_host.lua, for `audit` and `why`
"""
