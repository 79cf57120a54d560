"""T-SQL understood by parsing: tokens, syntax tree, exact types, DuckDB text."""
