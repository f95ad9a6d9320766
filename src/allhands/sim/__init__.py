"""The same system on a clock that jumps: virtual time, faults, workloads, traces, and checkers of the laws."""
