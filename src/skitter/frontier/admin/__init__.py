"""Operations on a job for operators and supervisors: control, workers, items, dead letters."""
