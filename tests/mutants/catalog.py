"""All mutants, one list."""

from tests.mutants.beginnings import BEGINNINGS
from tests.mutants.beginnings_on_redis import BEGINNINGS_ON_REDIS
from tests.mutants.dramatiq import DRAMATIQ
from tests.mutants.engine import ENGINE
from tests.mutants.keeping import KEEPING
from tests.mutants.libsql import LIBSQL
from tests.mutants.polled import POLLED
from tests.mutants.rules import RULES
from tests.mutants.stores import POSTGRES, REDIS, SQLITE
from tests.mutants.tracked import TRACKED

MUTANTS = (
    *KEEPING,
    *ENGINE,
    *TRACKED,
    *POLLED,
    *RULES,
    *REDIS,
    *POSTGRES,
    *SQLITE,
    *LIBSQL,
    *BEGINNINGS,
    *BEGINNINGS_ON_REDIS,
    *DRAMATIQ,
)
