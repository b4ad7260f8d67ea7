"""One phase: its turns in order, with what it begins with."""
