"""The instances that are measured: one module a scenario, each run in processes of its own.

They import nothing but the engine, so that what they cost is what it costs.
"""
