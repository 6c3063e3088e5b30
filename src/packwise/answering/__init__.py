"""From passages to an answer: few-shot examples, the prompt, synthesis, and extraction."""
