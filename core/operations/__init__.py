"""Operations: one question to a cluster, with one answer for commands, pages, jobs and Spark.

A module or folder here has the request, the computation and the answer of one operation. It imports
kernels and computes nothing when it is imported: the command line reads its request for ``--help``
while kernels are stand-ins.
"""
