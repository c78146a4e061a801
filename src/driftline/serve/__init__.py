"""`driftline serve`: web pages for a store, to browse bugs, start and watch jobs, compare stores and look at folders.

The server shows and asks; it runs nothing itself. Pages are the report's own templates (`driftline.report`). Work
is done by child processes (`work.py`), one for each job, through the same calls as the commands: the server imports no
compiler and opens no upload. `access.py` says who may ask for what.
"""
