"""The workload: TPC-H-like customer, orders and lineitem, and changes to them."""
