"""Records in the tables of SQLite, whoever has these: this process, or a server.

Knows the tables, what stands in their rows, and what of a record is to be written. How a
statement gets there and what makes a step atomic is the adapters' own.
"""
