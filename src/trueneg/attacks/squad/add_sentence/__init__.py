"""AddSent: a sentence that looks like the answer, and is about something else."""
