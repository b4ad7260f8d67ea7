"""Tasks in XML: atomic, sequential and reduce; read, checked, compiled to the one inner form."""
