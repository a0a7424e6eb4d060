"""For authors of stores and of tests: the behavioural suite, both faces of an object, a clock to set.

Only this package needs pytest; `langchain_sessions.testing.machine` needs hypothesis too.
"""

from langchain_sessions.testing.contract import StoreContract
from langchain_sessions.testing.faces import FACES, Face, PrivateLoop, SettableClock, faced
from langchain_sessions.testing.suites.engines import EngineContract

__all__ = ["FACES", "EngineContract", "Face", "PrivateLoop", "SettableClock", "StoreContract", "faced"]
