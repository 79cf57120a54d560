"""A SQL Server stand-in that real drivers talk to: TDS on loopback over DuckDB, with CDC."""
