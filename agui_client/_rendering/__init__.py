"""Parts for people at a terminal or a notebook: forms, escaping, and views."""
