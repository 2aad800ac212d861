"""Parts for people at a terminal or a notebook: forms, escaping, and widgets below a cell."""
