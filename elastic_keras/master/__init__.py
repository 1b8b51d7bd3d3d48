"""The master: tasks, members, evaluation, and how a job ends."""
