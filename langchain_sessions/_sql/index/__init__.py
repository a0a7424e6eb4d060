"""Operations on the index and the vectors of recall."""
