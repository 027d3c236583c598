"""What commands show: data, progress, the live view.

changed_rows  What a changed spider changes, as `replay --against` shows it
console       What is shown on a terminal, by Rich: colours, and lines that wrap at words
display       What `top` and `logs` show, as pure functions: no server, no terminal, no clock
output        Data to stdout, as a table for people or as JSON for programs
progress      The display of a running crawl, and the report at its end
"""
