"""Tables, charts and HTML pages generated from results."""
