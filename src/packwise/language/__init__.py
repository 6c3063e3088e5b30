"""Language: index terms, sentences, stop words, numbers, names and question types."""
