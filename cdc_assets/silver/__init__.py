"""Silver: bronze's change log applied to a current-state table, and its verdict."""
