"""AddSent: adds a sentence that resembles the answer, but is about something else."""
