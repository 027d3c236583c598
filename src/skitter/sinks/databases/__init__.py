"""Items in tables of databases.

attachments   What is known of downloaded files, and which rows name them
changes       Changes: what later visits found, noted in the transaction that stores their rows
mysql         MariaDB and MySQL: `mysql://user:password@host:port/database`
part_files    Parts: rows of a table on their way to a folder of files that are only ever added
postgres      PostgreSQL: `postgresql://user:password@host:port/database`
shape         Tables of databases: their columns, our marks, the views of types; and dialects
sql           Items in a table: SQLite, PostgreSQL, MariaDB and MySQL, through SQLAlchemy Core
sqlite        SQLite: `sqlite:///path`, or a path that ends in .db, .sqlite or .sqlite3
stored_table  A table of a database as it is: what is in it, and the errors of its database
"""
