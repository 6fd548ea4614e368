"""Tables, pictures and pages, made from results."""
