"""Readers of public job traces: from a file to a stream of jobs, one file for each format.

They decide nothing and keep nothing: a line in, a job out. A line that makes no sense is an error that names the file,
the line and what is wrong with it; it is never passed over in silence.
"""
