"""Published data sets, and sets made from them; each module registers its own."""
