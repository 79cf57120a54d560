"""The source: connections, the T-SQL we send, the catalog, types, and reads as Arrow batches."""
