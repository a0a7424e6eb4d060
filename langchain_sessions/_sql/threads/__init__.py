"""Operations on checkpoints and pending writes."""
