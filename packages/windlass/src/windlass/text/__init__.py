"""What texts need everywhere: tokens, prompts, pictures, titles, templates."""
