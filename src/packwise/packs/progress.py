"""What a caller may show while a build or a copy runs."""

from __future__ import annotations


class Progress:
    """Receives the progress of a build or a copy; this one shows nothing."""

    def fetched(self, url: str) -> None:
        """One more web page was fetched, or found unchanged."""

    def counted(self, documents: int) -> None:
        """The number of documents to expect."""

    def document(self) -> None:
        """One more document is stored, or was found unchanged."""

    def embedded(self, passages: int) -> None:
        """This many more passages have vectors."""

    def committing(self) -> None:
        """Everything is staged; the store commits it and writes its indexes."""

    def verified(self) -> None:
        """One more document of a copy was read back and is the same."""
