"""What the project costs, next to what it is compared with; `make bench` runs it."""
