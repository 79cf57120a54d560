"""The engine of one machine: arrow-odbc reads, delta-rs writes, in the run's own process."""
