"""`driftline serve`: web pages for a store, to browse bugs, start and watch jobs, compare stores and look at folders.

The server itself runs no programs, imports no compiler and opens no uploaded file: each job runs in a child process
(`work.py`), through the same calls as the commands. Pages use the report's templates (`driftline.report`). `access.py`
defines who may request what.
"""
