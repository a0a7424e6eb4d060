"""Operations on logs and sessions."""
