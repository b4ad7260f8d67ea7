"""What a prompt cache is worth: prices, rules of providers, meter, trust, breakpoints."""
