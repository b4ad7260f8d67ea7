"""Tasks at work: context assembled section by section, steps in order, inputs side by side."""
