"""`mssql-cdc-pyspark` 0.8.0, the package that others would use, in an environment of its own."""
