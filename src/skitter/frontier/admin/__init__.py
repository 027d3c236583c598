"""What operators and supervisors do with a job: jobs, control, workers, items, dead letters."""
