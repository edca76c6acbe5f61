"""Our own balancer: the whole cluster at once, by a measure that a person chooses.

The balancer of the meta server evens out each table by counts and looks at nothing else; what it
leaves may be uneven as a whole, in traffic and on disks. Here the goal is every node near the mean
of one measure, with role changes first, since they copy nothing.
"""
