"""What turns the pages into a site: colours of consoles, the table of contents, the reference of every route."""
