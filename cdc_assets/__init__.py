"""SQL Server tables in a Delta lake, and for each one up to when it is complete."""

__version__ = "0.1.0"
