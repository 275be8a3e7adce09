"""The kill matrix: mutations by name, and for each the gates that must see it, those that must not, and why."""
