"""The stand-in's engine: store, catalogue, sessions, transactions, change capture."""
