"""The Celery projects that schedulers are measured with, and what runs in processes of its own.

All but ``anarchon-beat`` run in the environment of the peers, so these modules import nothing
of anarchon before they are told to.
"""
