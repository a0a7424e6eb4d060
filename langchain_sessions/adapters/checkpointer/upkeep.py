"""..."""
class Upkeep:
    pass
