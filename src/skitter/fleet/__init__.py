"""The fleet: processes on this machine, as many as wanted, started again when they die.

    plan         how many there should be; pure
    process      one child process, and when it may be started again
    output       what they print, for whoever watches
    supervisor   make reality follow the plan

It starts processes and never imports what they run: a worker that takes its interpreter down
takes nobody else with it. It keeps nothing that is not on the server or in the command line.
"""
