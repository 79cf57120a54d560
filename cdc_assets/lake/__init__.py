"""The Delta tables, through delta-rs: opening, facts, control, and what bronze's log says."""
