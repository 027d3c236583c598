"""Items in files: added to line by line, or written whole from a store.

csv      CSV with a header line: UTF-8, commas, quotes where needed, lines ending in a line feed
json     JSON: one array of rows, a row per line
jsonl    JSON Lines: one row per line, in order of arrival
ledger   What is beside an output file: its ledger and its receipts; and errors of its disk
nested   Types of nested values: what Arrow calls lists and structs, found in the values of a column
parquet  Parquet: typed columns, in groups of rows that readers skip; lists and dicts as such
xlsx     Excel: a sheet of rows, and another one after each 1,048,575
"""
