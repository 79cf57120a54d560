"""Everything that decides, as pure functions over plain values: no I/O, no engine."""
